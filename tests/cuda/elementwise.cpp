// The results of CUDA's element-wise kernels, computed on the host and compared with the CPU
// kernels'.
#include "ringlet/cuda/elementwise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::cuda {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> numbers() {
  std::vector<double> x = {0.0,       -0.0,       1.0, -1.0, 0.5,   -2.25, 88.0, 1e-3,
                           kInfinity, -kInfinity, NAN, 3.0,  -87.3, -87.4, -90,  -103};
  for (int i = -400; i <= 400; ++i) x.push_back(i * 0.0173);
  return x;
}

template <class S>
Tensor tensor_of(const std::vector<double>& values) {
  Tensor x = empty({static_cast<std::int64_t>(values.size())}, dtype_of<S>());
  for (std::size_t i = 0; i < values.size(); ++i)
    x.mutable_data<S>()[i] = static_cast<S>(values[i]);
  return x;
}

// Distance in units of the last place of `b`, or of `term` where that is larger; 0 for two NaN.
template <class S>
double ulps(S a, S b, S term) {
  if (a == b || (a != a && b != b)) return 0;
  const S size = std::max({std::abs(b), term, std::numeric_limits<S>::min()});
  return std::abs(static_cast<double>(a - b)) /
         (static_cast<double>(std::nextafter(size, std::numeric_limits<S>::infinity()) - size));
}

// `bound` in ulp: as stated in core/cpu/simd_math.h, and 1 for the C library; ulp of `term` if
// term(x) is larger than the result.
template <UnaryOp op, class S>
void check_unary(
    double bound, S (*term)(S) = [](S) { return S{}; }) {
  const Tensor x = tensor_of<S>(numbers()), expected = unary(op, x);
  CAPTURE(name(op));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const S at = x.data<S>()[i];
    CAPTURE(at);
    CHECK(ulps(apply<op>(at), expected.data<S>()[i], term(at)) <= bound);
  }
}

template <UnaryOp op>
void check_unary(double bound) {
  check_unary<op, float>(bound);
  check_unary<op, double>(std::min(bound, 2.0));
}

TEST_CASE("cuda elementwise: functions of one number") {
  check_unary<UnaryOp::neg>(0);
  check_unary<UnaryOp::abs>(0);
  check_unary<UnaryOp::sqrt>(0);
  check_unary<UnaryOp::rsqrt>(0);
  check_unary<UnaryOp::relu>(0);
  check_unary<UnaryOp::sign>(0);
  check_unary<UnaryOp::square>(0);
  check_unary<UnaryOp::reciprocal>(0);
  check_unary<UnaryOp::exp>(3);
  check_unary<UnaryOp::log>(3);
  check_unary<UnaryOp::tanh>(5);
  check_unary<UnaryOp::sigmoid>(4);
}

// The portable CPU kernels round a b + c twice. That is sixteen times in the polynomials, each time
// below half an ulp of the largest term, which is half of the factor of cdf.
TEST_CASE("cuda elementwise: GELU is the CPU's") {
#if defined(RINGLET_HAS_AVX2)
  const char* isa = std::getenv("RINGLET_ISA");
  const double bound = isa && !std::strcmp(isa, "portable") ? 32 : 0;
#else
  const double bound = 32;
#endif
  check_unary<UnaryOp::gelu, float>(bound, [](float x) { return std::abs(x) / 2; });
  check_unary<UnaryOp::gelu_derivative, float>(bound, [](float) { return 0.5f; });
}

template <BinaryOp op, class S>
void check_binary() {
  const std::vector<double> x = {0, 1, 2, 3, 5, 127, 255, -1, -7};
  CAPTURE(name(op));
  for (double a : x)
    for (double b : x) {
      const S left = static_cast<S>(static_cast<std::int64_t>(a));
      const S right = static_cast<S>(static_cast<std::int64_t>(b));
      const Tensor expected = binary(op, tensor_of<S>({static_cast<double>(left)}),
                                     tensor_of<S>({static_cast<double>(right)}));
      const S result = apply<op>(left, right), other = expected.data<S>()[0];
      CHECK((result == other || (result != result && other != other)));
    }
}

template <class S>
void check_arithmetic() {
  check_binary<BinaryOp::add, S>();
  check_binary<BinaryOp::sub, S>();
  check_binary<BinaryOp::mul, S>();
  check_binary<BinaryOp::maximum, S>();
  check_binary<BinaryOp::minimum, S>();
}

TEST_CASE("cuda elementwise: arithmetic") {
  check_arithmetic<float>();
  check_arithmetic<double>();
  check_arithmetic<std::int32_t>();
  check_arithmetic<std::int64_t>();
  check_arithmetic<std::uint8_t>();
  check_binary<BinaryOp::div, float>();
  check_binary<BinaryOp::pow, double>();
}

TEST_CASE("cuda elementwise: comparisons as sets of outcomes") {
  const std::vector<double> x = {-kInfinity, -1, -0.0, 0.0, 2, kInfinity, NAN};
  for (BinaryOp op :
       {BinaryOp::eq, BinaryOp::ne, BinaryOp::lt, BinaryOp::le, BinaryOp::gt, BinaryOp::ge})
    for (double a : x)
      for (double b : x) {
        const Tensor expected = binary(op, tensor_of<double>({a}), tensor_of<double>({b}));
        CAPTURE(name(op));
        CAPTURE(a);
        CAPTURE(b);
        CHECK(((outcomes(op) & outcome(a, b)) != 0) == (expected.data<std::uint8_t>()[0] != 0));
      }
}

}  // namespace
}  // namespace ringlet::cuda
