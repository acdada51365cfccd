#include "ringlet/core/ops/layer_norm.h"

#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/layer_norm_backward.cuh"
#include "ringlet/cuda/layer_norm_long.cuh"
#include "ringlet/cuda/normalize_rows.cuh"
#include "ringlet/cuda/register.h"

namespace ringlet::cuda {
namespace {

// z = residual + dropout(x), or x alone: the Source of normalize_rows.cuh.
template <class T, bool kResidual>
struct DroppedRows {
  const T* x;         // (R, C)
  const T* residual;  // (R, C)
  RowDropout dropout;

  template <bool kVector, class S, int kChunks, int V>
  __device__ __forceinline__ void load(std::int64_t row, std::int64_t columns, std::int64_t first,
                                       S (&z)[kChunks][V]) const {
    const std::int64_t at = row * columns;
    S beside[kChunks][V];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      load_row<kVector>(x + at, first + k * kWarp * V, columns, z[k]);
      if constexpr (kResidual)
        load_row<kVector>(residual + at, first + k * kWarp * V, columns, beside[k]);
    }
    if (dropout.threshold > 0) {
      const std::uint32_t kept =
          kept_runs<kChunks, V>(dropout, row, first, std::int64_t{kWarp} * V);
#pragma unroll
      for (int k = 0; k < kChunks; ++k) drop(z[k], kept >> k * V, dropout);
    }
    if constexpr (kResidual) {
#pragma unroll
      for (int k = 0; k < kChunks; ++k)
#pragma unroll
        for (int i = 0; i < V; ++i) z[k][i] = beside[k][i] + z[k][i];
    }
  }
};

template <class T, bool kResidual>
void forward(const LayerNormArgs& args, Device device) {
  using S = compute_t<T>;
  const DroppedRows<T, kResidual> source{static_cast<const T*>(args.x),
                                         static_cast<const T*>(args.residual), args.dropout};
  const NormalizedRows<T> out{static_cast<T*>(args.y),
                              static_cast<T*>(args.normalized),
                              static_cast<S*>(args.mean),
                              static_cast<S*>(args.rstd),
                              static_cast<const S*>(args.weight),
                              static_cast<const S*>(args.bias),
                              args.rows,
                              args.columns,
                              static_cast<S>(args.eps),
                              {}};
  normalize_rows("layer_norm", device, source, out, aligned16(args.x, args.residual));
}

void layer_norm(const LayerNormArgs& args, Device device) {
  dispatch_floating("layer_norm", args.dtype, [&]<class T>() {
    args.residual ? forward<T, true>(args, device) : forward<T, false>(args, device);
  });
}

// ---- backward -----------------------------------------------------------------------------

// out = beta out + the sums of partial (blocks, 2, C) over the blocks. A block of threads takes
// kWarp of the 2 C columns. Each of its kReduceRows rows of threads takes every kReduceRows-th
// block; their sums are then added in order.
constexpr int kReduceRows = 32;
constexpr int kReduceThreads = kWarp * kReduceRows;

template <class S>
__global__ void __launch_bounds__(kReduceThreads)
    add_partials(const S* partial, std::int64_t blocks, std::int64_t columns, S* grad_weight,
                 S* grad_bias, bool keep_weight, bool keep_bias) {
  __shared__ S sums[kReduceRows][kWarp];
  const std::int64_t i = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  S total = 0;
  if (i < 2 * columns) {
#pragma unroll 8
    for (std::int64_t block = threadIdx.y; block < blocks; block += kReduceRows)
      total += partial[2 * block * columns + i];
  }
  sums[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || i >= 2 * columns) return;
  for (int row = 1; row < kReduceRows; ++row) total += sums[row][threadIdx.x];
  S* const out = i < columns ? grad_weight : grad_bias;
  if (!out) return;
  S* const at = out + (i < columns ? i : i - columns);
  *at = (i < columns ? keep_weight : keep_bias) ? total + *at : total;
}

template <class T>
void backward(const LayerNormBackwardArgs& args, Device device) {
  using S = compute_t<T>;
  const bool planned = args.columns <= kPlanColumns && !std::is_same_v<T, double>;
  if constexpr (!std::is_same_v<T, double>)
    if (planned) launch_layer_norm_backward<T>(args, device);
  if (!planned) launch_layer_norm_backward_long<T>(args, device);
  if (!args.grad_weight && !args.grad_bias) return;
  const auto grid = static_cast<unsigned>((2 * args.columns + kWarp - 1) / kWarp);
  const auto add = [&](void* weight, void* bias) {
    launch("layer_norm_backward", device, add_partials<S>, grid, dim3(kWarp, kReduceRows), 0,
           static_cast<const S*>(args.partial), layer_norm_blocks(args.rows), args.columns,
           static_cast<S*>(weight), static_cast<S*>(bias), args.beta_weight != 0,
           args.beta_bias != 0);
  };
  if (args.grad_weight != args.grad_bias) return add(args.grad_weight, args.grad_bias);
  // Two launches, since one parameter may be both: the threads of one launch are not ordered.
  add(args.grad_weight, nullptr);
  add(nullptr, args.grad_bias);
}

void layer_norm_backward(const LayerNormBackwardArgs& args, Device device) {
  dispatch_floating("layer_norm_backward", args.dtype,
                    [&]<class T>() { backward<T>(args, device); });
}

}  // namespace

void register_layer_norm() {
  layer_norm_kernel.set(DeviceType::cuda, layer_norm);
  layer_norm_backward_kernel.set(DeviceType::cuda, layer_norm_backward);
}

}  // namespace ringlet::cuda
