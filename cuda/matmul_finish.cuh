// The steps after a product: bias, GELU, and rounding to bf16 after both.
#pragma once

#include "ringlet/cuda/gelu.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/matmul_plan.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

inline constexpr int kFinishColumns = 128;  // of a block, times the elements of a pack
inline constexpr unsigned kMostGridRows = 1024;

/// S is float, or double for f64.
template <class S, class Sum, class Out>
struct FinishArgs {
  const Sum* product;  // (m, n); null: zeros, of a product with k = 0
  const S* bias;       // (n), counts as rounded to Out; null: none, or added already
  Out* pre;            // (m, n); null: no GELU
  Out* out;            // (m, n)
  std::int64_t m, n;
  S beta;  // factor of out; with 0 out is not read

  /// Whether the product was written to `pre` and needs no further step.
  __device__ __forceinline__ bool has_pre() const {
    return static_cast<const void*>(product) == pre && !bias && beta == 0;
  }
};

/// kRun columns at a time: 1, or 8 where rows and pointers are multiples of 16 bytes.
template <int kRun, class S, class Sum, class Out>
__global__ void finish_product(FinishArgs<S, Sum, Out> args) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kRun;
  if (column >= args.n) return;
  S bias[kRun] = {};
  if (args.bias) load_run(args.bias + column, bias);
#pragma unroll
  for (int j = 0; j < kRun; ++j) bias[j] = to_compute(from_compute<Out>(bias[j]));
  for (std::int64_t row = blockIdx.y; row < args.m; row += gridDim.y) {
    const std::int64_t i = row * args.n + column;
    S value[kRun] = {};
    if (args.product) load_run(args.product + i, value);
    if (args.beta != 0) {
      S before[kRun];
      load_run(args.out + i, before);
#pragma unroll
      for (int j = 0; j < kRun; ++j) value[j] = ::fma(args.beta, before[j], value[j]);
    }
    if (args.bias) {
#pragma unroll
      for (int j = 0; j < kRun; ++j) value[j] += bias[j];
    }
    if (args.pre) {
      // The activation's input is the stored value, as in two separate ops.
#pragma unroll
      for (int j = 0; j < kRun; ++j) value[j] = to_compute(from_compute<Out>(value[j]));
      if (!args.has_pre()) store_run(args.pre + i, value);
#pragma unroll
      for (int j = 0; j < kRun; ++j) value[j] = gelu(value[j]);
    }
    store_run(args.out + i, value);
  }
}

template <class S, class Sum, class Out>
void finish(Device device, const FinishArgs<S, Sum, Out>& args) {
  const auto rows = static_cast<unsigned>(args.m < kMostGridRows ? args.m : kMostGridRows);
  const bool packs = args.n % 8 == 0 && aligned16(args.product, args.bias, args.pre, args.out);
  const std::int64_t width = packs ? args.n / 8 : args.n;
  const dim3 grid(static_cast<unsigned>((width + kFinishColumns - 1) / kFinishColumns), rows);
  launch("finish_product", device,
         packs ? finish_product<8, S, Sum, Out> : finish_product<1, S, Sum, Out>, grid,
         kFinishColumns, 0, args);
}

template <class S, class Sum, class Out>
void finish(const MatmulArgs& args, Device device, const MatmulPlan& plan, const void* product) {
  const bool at_end = plan.scratch || !product;  // beta was not the library's
  finish<S, Sum, Out>(device,
                      {static_cast<const Sum*>(product),
                       plan.adds_bias && product ? nullptr : static_cast<const S*>(args.bias),
                       static_cast<Out*>(args.pre_activation), static_cast<Out*>(args.out),
                       args.batch * args.m, args.n, at_end ? static_cast<S>(args.beta) : S{0}});
}

/// Bias, beta and GELU of a product, unless the library applied them; product null: zeros, as with
/// k = 0.
inline void finish(const MatmulArgs& args, Device device, const MatmulPlan& plan,
                   const void* product) {
  if (args.out_dtype == DType::f64)
    return finish<double, double, double>(args, device, plan, product);
  if (args.out_dtype == DType::f32) return finish<float, float, float>(args, device, plan, product);
  if (plan.product == DType::f32)
    return finish<float, float, bfloat16>(args, device, plan, product);
  finish<float, bfloat16, bfloat16>(args, device, plan, product);
}

}  // namespace ringlet::cuda
