// Plans of products, run on the host as the library and the kernels behind it would run them.
#include "ringlet/cuda/matmul_plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "ringlet/core/tensor.h"
#include "ringlet/cuda/gelu.h"

using namespace ringlet;

namespace {

double element(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::f64:
      return static_cast<const double*>(data)[i];
    default:
      return static_cast<float>(static_cast<const bfloat16*>(data)[i]);
  }
}

void store(void* data, DType dtype, std::int64_t i, double value) {
  switch (dtype) {
    case DType::f32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case DType::f64:
      static_cast<double*>(data)[i] = value;
      return;
    default:
      static_cast<bfloat16*>(data)[i] = bfloat16(static_cast<float>(value));
  }
}

/// op(matrix)(row, column) of the batch's matrix `one`.
double read(const cuda::ColumnMajor& matrix, const void* data, DType dtype, std::int64_t one,
            std::int64_t row, std::int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  REQUIRE(row < matrix.rows);
  REQUIRE(column < matrix.columns);
  return element(data, dtype, one * matrix.stride + column * matrix.ld + row);
}

/// What the column-major library does. Operands in memory are of `dtypes`, rounded where the plan
/// casts them.
void library(const cuda::MatmulPlan& plan, const MatmulArgs& args, void* out) {
  const auto rounded = [](double value, bool cast) {
    return cast ? static_cast<float>(bfloat16(static_cast<float>(value))) : value;
  };
  for (std::int64_t one = 0; one < plan.batch; ++one)
    for (std::int64_t column = 0; column < plan.out.columns; ++column)
      for (std::int64_t row = 0; row < plan.out.rows; ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < plan.k; ++i)
          sum += rounded(read(plan.left, args.b, args.b_dtype, one, row, i), plan.cast_b) *
                 rounded(read(plan.right, args.a, args.a_dtype, one, i, column), plan.cast_a);
        const std::int64_t at = one * plan.out.stride + column * plan.out.ld + row;
        if (plan.beta != 0) sum += plan.beta * element(out, plan.product, at);
        if (plan.adds_bias) sum += element(args.bias, plan.product, row);
        store(out, plan.product, at, sum);
      }
}

struct HostOps {
  float to(bfloat16 value) const { return static_cast<float>(value); }
  float to(float value) const { return value; }
  double to(double value) const { return value; }
  template <class T>
  T from(double value) const {
    return T(static_cast<float>(value));
  }
  template <class S>
  S fma(S a, S b, S c) const {
    return std::fma(a, b, c);
  }
  template <class S>
  S gelu(S x) const {
    return cuda::gelu(x);
  }
};
template <>
double HostOps::from<double>(double value) const {
  return value;
}

template <class S, class Sum, class Out>
void finish(const cuda::MatmulPlan& plan, const MatmulArgs& args, const void* product) {
  const bool own_beta = plan.scratch || !product;
  const cuda::FinishArgs<S, Sum, Out> rest{
      static_cast<const Sum*>(product),
      plan.adds_bias && product ? nullptr : static_cast<const S*>(args.bias),
      static_cast<Out*>(args.pre_activation),
      static_cast<Out*>(args.out),
      args.n,
      own_beta ? static_cast<S>(args.beta) : S{0}};
  for (std::int64_t row = 0; row < args.batch * args.m; ++row)
    for (std::int64_t column = 0; column < args.n; ++column)
      cuda::finish_element(rest, row, column, HostOps{});
}

void run_plan(const MatmulArgs& args, bool library_adds_bias) {
  const cuda::MatmulPlan plan = cuda::plan_matmul(args, library_adds_bias);
  std::vector<double> scratch(static_cast<std::size_t>(args.batch * args.m * args.n), NAN);
  void* const product = plan.scratch          ? scratch.data()
                        : args.pre_activation ? args.pre_activation
                                              : args.out;
  if (args.k > 0) library(plan, args, product);
  if (!plan.finish && args.k > 0) return;
  const void* const made = args.k > 0 ? product : nullptr;
  if (args.out_dtype == DType::f64) return finish<double, double, double>(plan, args, made);
  if (args.out_dtype == DType::f32) return finish<float, float, float>(plan, args, made);
  if (plan.product == DType::f32) return finish<float, float, bfloat16>(plan, args, made);
  finish<float, bfloat16, bfloat16>(plan, args, made);
}

/// Small integers, of which every product and sum is exact in every dtype; each is its own index's.
Tensor integers(std::int64_t n, DType dtype, int salt) {
  Tensor values = empty({n}, dtype);
  for (std::int64_t i = 0; i < n; ++i)
    store(values.mutable_bytes(), dtype, i, static_cast<double>((i * 7 + salt) % 5 - 2));
  return values;
}

struct Dtypes {
  DType dtype, a, b, out;
};

/// The plan's result against the CPU kernel's.
void compare(MatmulArgs args, bool with_bias, bool with_gelu) {
  const Tensor a = integers(args.batch * args.m * args.k + 1, args.a_dtype, 1);
  const Tensor b =
      integers((args.b_stride ? args.batch : 1) * args.k * args.n + 1, args.b_dtype, 2);
  const DType wide = args.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor bias = integers(args.n, wide, 3);
  const std::int64_t size = args.batch * args.m * args.n;
  args.a = a.bytes();
  args.b = b.bytes();
  if (with_bias) args.bias = bias.bytes();
  for (const bool library_adds_bias : {false, true}) {
    Tensor expected = integers(size, args.out_dtype, 4), got = integers(size, args.out_dtype, 4);
    Tensor expected_pre = integers(size, args.out_dtype, 0), got_pre = expected_pre.clone();
    args.out = expected.mutable_bytes();
    if (with_gelu) args.pre_activation = expected_pre.mutable_bytes();
    matmul_kernel(args, Device{});
    args.out = got.mutable_bytes();
    if (with_gelu) args.pre_activation = got_pre.mutable_bytes();
    run_plan(args, library_adds_bias);
    for (std::int64_t i = 0; i < size; ++i) {
      const double value = element(got.bytes(), args.out_dtype, i);
      const double wanted = element(expected.bytes(), args.out_dtype, i);
      CHECK(element(got_pre.bytes(), args.out_dtype, i) ==
            element(expected_pre.bytes(), args.out_dtype, i));
      // The same erf in f32; in f64 the CPU's own, to the last few bits.
      if (with_gelu && args.dtype == DType::f64)
        CHECK(std::abs(value - wanted) <= 1e-14 * (1 + std::abs(wanted)));
      else
        CHECK(value == wanted);
    }
  }
}

constexpr Dtypes kDtypes[] = {{DType::f32, DType::f32, DType::f32, DType::f32},
                              {DType::f32, DType::f32, DType::f32, DType::bf16},
                              {DType::f64, DType::f64, DType::f64, DType::f64},
                              {DType::bf16, DType::bf16, DType::bf16, DType::bf16},
                              {DType::bf16, DType::bf16, DType::bf16, DType::f32},
                              {DType::bf16, DType::f32, DType::bf16, DType::f32},
                              {DType::bf16, DType::bf16, DType::f32, DType::bf16}};

MatmulArgs sizes(const Dtypes& dtypes, std::int64_t batch, std::int64_t k, bool trans_a,
                 bool trans_b) {
  MatmulArgs args{};
  args.batch = batch;
  args.m = 3;
  args.n = 5;
  args.k = k;
  args.a_stride = args.m * k;
  args.b_stride = k * args.n;
  args.trans_a = trans_a;
  args.trans_b = trans_b;
  args.dtype = dtypes.dtype;
  args.a_dtype = dtypes.a;
  args.b_dtype = dtypes.b;
  args.out_dtype = dtypes.out;
  return args;
}

}  // namespace

TEST_CASE("plans of products: every layout, dtype and batch, with and without beta") {
  for (const Dtypes& dtypes : kDtypes)
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true})
        for (const std::int64_t k : {0, 1, 4})
          for (const std::int64_t batch : {1, 3}) {
            MatmulArgs args = sizes(dtypes, batch, k, trans_a, trans_b);
            compare(args, false, false);
            args.beta = 2;
            compare(args, false, false);
            args.b_stride = 0;
            compare(args, false, false);
          }
}

TEST_CASE("plans of layers: bias, GELU or both") {
  for (const Dtypes& dtypes : kDtypes)
    for (const std::int64_t k : {0, 4}) {
      const MatmulArgs args = sizes(dtypes, 1, k, false, true);
      compare(args, true, false);
      compare(args, false, true);
      compare(args, true, true);
    }
}

TEST_CASE("the library does what it can: a bias of the product's dtype, no more") {
  const auto plan = [](const Dtypes& dtypes, bool bias) {
    const float zeros[5] = {};
    MatmulArgs args = sizes(dtypes, 1, 4, false, true);
    if (bias) args.bias = zeros;
    return cuda::plan_matmul(args, true);
  };
  const auto f32 = plan(kDtypes[0], true);
  CHECK(f32.adds_bias);
  CHECK(!f32.finish);
  CHECK(!f32.scratch);
  const auto bf16 = plan(kDtypes[3], true);
  CHECK(!bf16.adds_bias);
  CHECK(bf16.scratch);
  CHECK(bf16.product == DType::f32);
  const auto plain = plan(kDtypes[3], false);
  CHECK(!plain.scratch);
  CHECK(!plain.finish);
  CHECK(!plan(kDtypes[2], true).adds_bias);  // not in f64
}
