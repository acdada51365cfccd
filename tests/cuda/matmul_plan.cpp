// Plans of products, compared with the CPU kernels for the same arguments.
#include "ringlet/cuda/matmul_plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "matmul_host.h"
#include "ringlet/core/tensor/tensor.h"

using namespace ringlet;

namespace {

/// Element i of integers(): small, so that every product and sum is exact in every dtype. Its
/// period divides no stride of sizes(), so that no rows and no matrices of a batch are equal.
double integer(std::int64_t i, int salt) { return static_cast<double>((i * 3 + salt) % 7 - 3); }

Tensor integers(std::int64_t n, DType dtype, int salt) {
  Tensor values = empty({n}, dtype);
  for (std::int64_t i = 0; i < n; ++i) store(values.mutable_bytes(), dtype, i, integer(i, salt));
  return values;
}

/// The difference of two GELUs of x: half the erf of each is within erf_error of the exact one, and
/// each is rounded once. An instruction set without fused multiply-adds has different bits than the
/// device.
double gelu_bound(DType dtype, double x, double gelu) {
  const double erf_error = dtype == DType::f64 ? 0x1p-51 : 5e-7;
  const double unit = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
  return std::abs(x) * erf_error + unit * std::abs(gelu);
}

struct Dtypes {
  DType dtype, a, b, out;
};

/// Compares the plan's result with the CPU kernel's.
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
  for (const bool epilogues : {false, true}) {
    Tensor expected = integers(size, args.out_dtype, 4), got = integers(size, args.out_dtype, 4);
    Tensor expected_pre = integers(size, args.out_dtype, 0), got_pre = expected_pre.clone();
    args.out = expected.mutable_bytes();
    if (with_gelu) args.pre_activation = expected_pre.mutable_bytes();
    matmul_kernel(args, Device{});
    args.out = got.mutable_bytes();
    if (with_gelu) args.pre_activation = got_pre.mutable_bytes();
    run_plan(args, epilogues);
    for (std::int64_t i = 0; i < size; ++i) {
      const double value = element(got.bytes(), args.out_dtype, i);
      const double wanted = element(expected.bytes(), args.out_dtype, i);
      const double x = element(got_pre.bytes(), args.out_dtype, i);
      CHECK(x == element(expected_pre.bytes(), args.out_dtype, i));
      CHECK(std::abs(value - wanted) <= (with_gelu ? gelu_bound(args.out_dtype, x, wanted) : 0.0));
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

TEST_CASE("an operand of f32 counts as rounded in a product of bf16") {
  for (const Dtypes& dtypes : {Dtypes{DType::bf16, DType::f32, DType::bf16, DType::f32},
                               {DType::bf16, DType::bf16, DType::f32, DType::f32}}) {
    MatmulArgs args = sizes(dtypes, 1, 1, false, false);
    const Tensor a = full({args.m}, 1 + 0x1p-9, args.a_dtype);  // 1 in bf16
    const Tensor b = full({args.n}, 1 + 0x1p-9, args.b_dtype);
    Tensor out = empty({args.m * args.n}, args.out_dtype);
    args.a = a.bytes();
    args.b = b.bytes();
    args.out = out.mutable_bytes();
    run_plan(args, true);
    CHECK(out.to_vector() == std::vector<float>(15, 1));
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

TEST_CASE("a bias is added to sums of f32, by the library or behind an f32 product") {
  const auto plan = [](const Dtypes& dtypes, bool bias, bool epilogues = true) {
    const float zeros[5] = {};
    MatmulArgs args = sizes(dtypes, 1, 4, false, true);
    if (bias) args.bias = zeros;
    return cuda::plan_matmul(args, epilogues);
  };
  const auto f32 = plan(kDtypes[0], true);
  CHECK(f32.adds_bias);
  CHECK(!f32.finish);
  CHECK(!f32.scratch);
  const auto bf16 = plan(kDtypes[3], true);
  CHECK(bf16.adds_bias);
  CHECK(!bf16.finish);
  CHECK(bf16.product == DType::bf16);
  for (const auto& behind : {plan(kDtypes[3], true, false), plan(kDtypes[1], true)}) {
    CHECK(!behind.adds_bias);
    CHECK(behind.scratch);
    CHECK(behind.finish);
    CHECK(behind.product == DType::f32);
  }
  const auto plain = plan(kDtypes[3], false);
  CHECK(!plain.scratch);
  CHECK(!plain.finish);
  CHECK(!plan(kDtypes[2], true).adds_bias);  // not in f64
}

TEST_CASE("a bias that is added in bf16 counts as rounded, in a product or an epilogue") {
  // In bf16 1 + 2^-8 is a tie, rounded to 1. The bias's part beyond bf16 would break it.
  constexpr float kBias = 0x1p-8f + 0x1p-17f;
  const std::vector<float> bias(5, kBias);
  for (const auto& [dtypes, expected] : {std::pair{kDtypes[3], 1.0},
                                         {kDtypes[1], 1.0},
                                         {kDtypes[6], 1.0},
                                         {kDtypes[0], 1.0 + kBias}})
    for (const bool epilogues : {false, true}) {
      MatmulArgs args = sizes(dtypes, 1, 1, false, true);
      const Tensor a = ones({args.m}, args.a_dtype), b = ones({args.n}, args.b_dtype);
      Tensor out = empty({args.m * args.n}, args.out_dtype);
      args.a = a.bytes();
      args.b = b.bytes();
      args.bias = bias.data();
      args.out = out.mutable_bytes();
      run_plan(args, epilogues);
      CHECK(out.to_vector<double>() == std::vector<double>(15, expected));
    }
}

TEST_CASE("sums of a product's operand: by the library, or by themselves") {
  for (const Dtypes& dtypes : kDtypes)
    for (const std::int64_t k : {0, 1, 4})
      for (const double beta : {0, 1})
        for (const bool epilogues : {false, true}) {
          MatmulArgs args = sizes(dtypes, 1, k, true, false);
          const DType wide = dtypes.dtype == DType::f64 ? DType::f64 : DType::f32;
          const Tensor a = integers(args.m * k + 1, args.a_dtype, 1);
          const Tensor b = integers(k * args.n + 1, args.b_dtype, 2);
          Tensor out = empty({args.m * args.n}, args.out_dtype);
          Tensor expected = integers(args.m, wide, 3), got = expected.clone();
          args.a = a.bytes();
          args.b = b.bytes();
          args.out = out.mutable_bytes();
          args.a_sums_beta = beta;
          args.a_sums = expected.mutable_bytes();
          matmul_kernel(args, Device{});
          args.a_sums = got.mutable_bytes();
          run_plan(args, epilogues);
          CHECK(got.to_vector<double>() == expected.to_vector<double>());
          for (std::int64_t column = 0; column < args.m; ++column) {
            double sum = beta * integer(column, 3);
            for (std::int64_t i = 0; i < k; ++i)
              sum += element(a.bytes(), args.a_dtype, i * args.m + column);
            CHECK(element(expected.bytes(), wide, column) == sum);
          }
        }
}

TEST_CASE("the library makes sums that it does not round, of numbers that nothing rounded") {
  float sums[3] = {};
  const auto plan = [&](const Dtypes& dtypes, bool epilogues = true) {
    MatmulArgs args = sizes(dtypes, 1, 4, true, false);
    args.a_sums = sums;
    return cuda::plan_matmul(args, epilogues);
  };
  CHECK(plan(kDtypes[4]).makes_sums);  // bf16 into f32
  CHECK(plan(kDtypes[4]).has_epilogue());
  CHECK(!plan(kDtypes[4], false).makes_sums);
  CHECK(!plan(kDtypes[0]).makes_sums);  // f32, which may be TF32
  CHECK(!plan(kDtypes[2]).makes_sums);  // f64
  CHECK(!plan(kDtypes[3]).makes_sums);  // bf16 into bf16, where sums would be bf16
  CHECK(!plan(kDtypes[5]).makes_sums);  // f32 rounded to bf16
  MatmulArgs args = sizes(kDtypes[4], 1, 4, true, false);
  CHECK(!cuda::plan_matmul(args, true).makes_sums);  // not requested
  args.a_sums = sums;
  CHECK(!cuda::plan_matmul(args, true).adds_sums);
  args.a_sums_beta = 1;
  CHECK(cuda::plan_matmul(args, true).adds_sums);
}
