#include "ringlet/core/ops/layer_norm.h"

#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/layer_norm_backward.cuh"
#include "ringlet/cuda/layer_norm_long.cuh"
#include "ringlet/cuda/normalize_rows.cuh"
#include "ringlet/cuda/register.h"
#include "ringlet/cuda/workspace.h"

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

// Partial column sums (parts, 2, C). A block of rows has kGroups parts, the last one perhaps fewer.
template <class S>
struct Partials {
  const S* sums;
  std::int64_t parts;
  std::int64_t columns;
  S* out[2];     // of weight and bias (C), may be null
  bool keep[2];  // whether the sum is added to what is there
};

// out = beta out + the sums over the blocks, each the sum of its groups in order. A block of
// threads takes kWarp columns of one sum. Each of its kReduceRows rows of threads takes every
// kReduceRows-th block; their sums are then added in order.
constexpr int kReduceRows = 32;
constexpr int kReduceThreads = kWarp * kReduceRows;

template <class S, int kGroups>
__global__ void __launch_bounds__(kReduceThreads) add_partials(Partials<S> all) {
  __shared__ S sums[kReduceRows][kWarp];
  const bool is_bias = blockIdx.y == 1;
  S* const out = is_bias ? all.out[1] : all.out[0];
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const S* const from = all.sums + blockIdx.y * all.columns + column;
  S total = 0;
  if (out && column < all.columns) {
#pragma unroll 8 / kGroups
    for (std::int64_t part = threadIdx.y * kGroups; part < all.parts;
         part += kReduceRows * kGroups) {
      S block = from[2 * part * all.columns];
#pragma unroll
      for (int group = 1; group < kGroups; ++group)
        block += part + group < all.parts ? from[2 * (part + group) * all.columns] : S{0};
      total += block;
    }
  }
  sums[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || !out || column >= all.columns) return;
  for (int row = 1; row < kReduceRows; ++row) total += sums[row][threadIdx.x];
  out[column] = (is_bias ? all.keep[1] : all.keep[0]) ? total + out[column] : total;
}

template <class S>
void add(const Partials<S>& all, int groups, Device device) {
  const auto kernel = groups == 1   ? add_partials<S, 1>
                      : groups == 2 ? add_partials<S, 2>
                      : groups == 4 ? add_partials<S, 4>
                                    : add_partials<S, kPlanGroups>;
  const dim3 grid(static_cast<unsigned>((all.columns + kWarp - 1) / kWarp), 2);
  launch("layer_norm_backward", device, kernel, grid, dim3(kWarp, kReduceRows), 0, all);
}

template <class T>
void backward(const LayerNormBackwardArgs& args, Device device) {
  using S = compute_t<T>;
  const bool planned = args.columns <= kPlanColumns && !std::is_same_v<T, double>;
  const std::int64_t blocks = layer_norm_blocks(args.rows);
  const LayerNormPlan plan =
      planned ? layer_norm_plan(blocks, args.columns, kPack<T>) : LayerNormPlan{0, 1};
  const bool sums = args.grad_weight || args.grad_bias;
  Partials<S> all{nullptr,
                  plan.parts(args.rows),
                  args.columns,
                  {static_cast<S*>(args.grad_weight), static_cast<S*>(args.grad_bias)},
                  {args.beta_weight != 0, args.beta_bias != 0}};
  const Workspace partial(
      device, sums ? static_cast<std::size_t>(all.parts * 2 * args.columns) * sizeof(S) : 0);
  all.sums = partial.as<S>();
  if constexpr (!std::is_same_v<T, double>)
    if (planned) launch_layer_norm_backward<T>(args, device, plan, partial.as<S>());
  if (!planned) launch_layer_norm_backward_long<T>(args, device, partial.as<S>());
  if (!sums) return;
  if (args.grad_weight != args.grad_bias) return add(all, plan.groups, device);
  // Two launches, since one parameter may be both: the threads of one launch are not ordered.
  for (const int one : {0, 1}) {
    Partials<S> of_one = all;
    of_one.out[1 - one] = nullptr;
    add(of_one, plan.groups, device);
  }
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
