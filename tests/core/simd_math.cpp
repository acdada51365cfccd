// The error bounds stated in core/cpu/simd_math.h, measured through the ops against the C library
// in f64. RINGLET_ISA selects the instruction set.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "../device.h"
#include "ringlet/core/ops/elementwise.h"

using namespace ringlet;

namespace {

/// `count` floats from low to high.
Tensor range(double low, double high, int count = 100'001) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<float>(low + (high - low) * i / (count - 1));
  return tensor(values, {count});
}

/// The distance between the floats next to a value.
double ulp(double value) {
  const float a = static_cast<float>(std::abs(value));
  return static_cast<double>(std::nextafter(a, std::numeric_limits<float>::infinity())) -
         static_cast<double>(a);
}

/// Largest |got - exact| in units of `unit(x, exact)`.
template <class Exact, class Unit>
double worst(UnaryOp op, const Tensor& x, Exact exact, Unit unit) {
  const std::vector<float> xs = x.to_vector(), ys = unary(op, x).to_vector();
  double out = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double wanted = exact(static_cast<double>(xs[i]));
    out = std::max(out, std::abs(static_cast<double>(ys[i]) - wanted) /
                            unit(static_cast<double>(xs[i]), wanted));
  }
  return out;
}
template <class Exact>
double worst_ulps(UnaryOp op, const Tensor& x, Exact exact) {
  return worst(op, x, exact, [](double, double wanted) { return ulp(wanted); });
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

TEST_CASE_FIXTURE(OnCpu, "exp, log and tanh keep their bounds in ulp") {
  CHECK(worst_ulps(UnaryOp::exp, range(-87.3, 88.7), [](double x) { return std::exp(x); }) <= 2);
  CHECK(worst_ulps(UnaryOp::exp, range(-1, 1), [](double x) { return std::exp(x); }) <= 2);
  CHECK(worst_ulps(UnaryOp::log, range(1e-6, 1e4), [](double x) { return std::log(x); }) <= 2);
  CHECK(worst_ulps(UnaryOp::log, range(0.5, 2), [](double x) { return std::log(x); }) <= 2);
  CHECK(worst_ulps(UnaryOp::log, range(1e-44, 1e-37), [](double x) { return std::log(x); }) <= 2);
  CHECK(worst_ulps(UnaryOp::tanh, range(-10, 10), [](double x) { return std::tanh(x); }) <= 4);
  CHECK(worst_ulps(UnaryOp::tanh, range(-0.7, 0.7), [](double x) { return std::tanh(x); }) <= 4);
}

TEST_CASE_FIXTURE(OnCpu, "sin, cos and log1p keep the C library's bound in ulp") {
  for (const double end : {1e-3, 10., 1e30}) {
    CHECK(worst_ulps(UnaryOp::sin, range(-end, end), [](double x) { return std::sin(x); }) <= 2);
    CHECK(worst_ulps(UnaryOp::cos, range(-end, end), [](double x) { return std::cos(x); }) <= 2);
  }
  for (const double end : {1e-7, 1e-3, 1e5})
    CHECK(worst_ulps(UnaryOp::log1p, range(-0.9 * std::min(end, 1.), end),
                     [](double x) { return std::log1p(x); }) <= 2);
}

TEST_CASE_FIXTURE(OnCpu, "sqrt is rounded once; sigmoid and rsqrt follow from their parts") {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto rsqrt = [](double x) { return 1 / std::sqrt(x); };
  CHECK(worst_ulps(UnaryOp::sqrt, range(0, 1e5), [](double x) { return std::sqrt(x); }) <= 0.5);
  CHECK(worst_ulps(UnaryOp::rsqrt, range(1e-3, 1e3), rsqrt) <= 2);
  // exp within 2 ulp, the sum and the quotient half an ulp each, twice that across a power of 2.
  CHECK(worst_ulps(UnaryOp::sigmoid, range(-80, 20), sigmoid) <= 2 * (2 + 0.5 + 0.5));
}

TEST_CASE_FIXTURE(OnCpu, "GELU inherits erf's absolute error, 5e-7") {
  const auto gelu = [](double x) { return x * normal_cdf(x); };
  const auto derivative = [](double x) {
    return normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
  };
  // Half of it from the distribution function, which x multiplies, plus the last roundings.
  CHECK(worst(UnaryOp::gelu, range(-12, 12), gelu,
              [](double x, double wanted) { return std::abs(x) * 2.5e-7 + ulp(wanted); }) <= 1);
  CHECK(worst(UnaryOp::gelu_derivative, range(-12, 12), derivative,
              [](double, double wanted) { return 2.5e-7 + 2 * ulp(wanted); }) <= 1);
}

TEST_CASE_FIXTURE(OnCpu, "an element's bits do not depend on its position") {
  const Tensor x = range(-9, 9, 1000);
  for (UnaryOp op : {UnaryOp::exp, UnaryOp::tanh, UnaryOp::gelu, UnaryOp::sigmoid}) {
    const std::vector<float> whole = unary(op, x).to_vector();
    for (std::int64_t begin : {1, 7, 15, 990}) {
      const std::vector<float> part = unary(op, x.slice(begin, 1000)).to_vector();
      CHECK(part == std::vector<float>(whole.begin() + begin, whole.end()));
    }
  }
}
