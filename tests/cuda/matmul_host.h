// A plan of a product run on the host: the column-major library, then the kernels after it.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ringlet/cuda/gelu.h"
#include "ringlet/cuda/matmul_plan.h"

namespace ringlet {

inline double element(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::f64:
      return static_cast<const double*>(data)[i];
    default:
      return static_cast<float>(static_cast<const bfloat16*>(data)[i]);
  }
}

inline void store(void* data, DType dtype, std::int64_t i, double value) {
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
inline double read(const cuda::ColumnMajor& matrix, const void* data, DType dtype, std::int64_t one,
                   std::int64_t row, std::int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  REQUIRE(row < matrix.rows);
  REQUIRE(column < matrix.columns);
  return element(data, dtype, one * matrix.stride + column * matrix.ld + row);
}

/// The library's column-major product. Operands in memory are of `dtypes`, rounded if the plan
/// casts them.
inline void library(const cuda::MatmulPlan& plan, const MatmulArgs& args, void* out) {
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
        if (plan.adds_bias)
          sum += rounded(element(args.bias, DType::f32, row), plan.product == DType::bf16);
        store(out, plan.product, at, sum);
      }
}

/// The library's epilogue: the sums over k of its right operand, one for each column of out.
inline void library_sums(const cuda::MatmulPlan& plan, const MatmulArgs& args, void* out) {
  for (std::int64_t column = 0; column < plan.out.columns; ++column) {
    double sum = 0;
    for (std::int64_t i = 0; i < plan.k; ++i)
      sum += read(plan.right, args.a, args.a_dtype, 0, i, column);
    store(out, plan.product, column, sum);
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
inline double HostOps::from<double>(double value) const {
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

/// a's sums, by the library or separately.
inline void run_sums(const cuda::MatmulPlan& plan, const MatmulArgs& args) {
  if (!plan.makes_sums || args.k == 0) return sum_rows_kernel(a_sums_of(args), Device{});
  std::vector<float> made(static_cast<std::size_t>(args.m), NAN);
  library_sums(plan, args, plan.adds_sums ? made.data() : args.a_sums);
  if (plan.adds_sums)
    sum_rows_kernel({args.a_sums, made.data(), 1, args.m, args.a_sums_beta, DType::f32}, Device{});
}

inline void run_plan(const MatmulArgs& args, bool epilogues) {
  const cuda::MatmulPlan plan = cuda::plan_matmul(args, epilogues);
  if (args.a_sums) run_sums(plan, args);
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

}  // namespace ringlet
