#include "ringlet/core/ops/layer_norm.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/layer_norm_backward.cuh"
#include "ringlet/cuda/normalize_rows.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

// The gradients of a LayerNorm for f64 and for rows longer than kPlanColumns. A first kernel has
// one block per row, a second one thread per column of kLayerNormBlock rows. x_sums are separate.

template <class T, class S, int V>
__device__ __forceinline__ void load_dropped_gradient(const LayerNormBackwardArgs& args,
                                                      std::int64_t row, std::int64_t column,
                                                      S (&g)[V], S (&n)[V]) {
  load_gradient<false, T>(args, row, column, g, n);
  std::uint32_t kept = 0;
  if (args.output_dropout.threshold > 0)
    kept = kept_runs<1, V>(args.output_dropout, row, column, 0);
  finish_gradient(args, row, kept, g, n);
}

template <class T>
__global__ void __launch_bounds__(kThreads) layer_norm_backward_long(LayerNormBackwardArgs args) {
  using S = compute_t<T>;
  const std::int64_t first = std::int64_t{team_lane<BlockTeam>()} * kLongRun;
  constexpr std::int64_t kStep = kThreads * kLongRun;
  const S* const weights = static_cast<const S*>(args.weight);
  for_team_rows<BlockTeam>(args.rows, [&](std::int64_t row) {
    S g[kLongRun], n[kLongRun], weight[kLongRun], totals[2] = {};
    for (std::int64_t column = first; column < args.columns; column += kStep) {
      load_dropped_gradient<T>(args, row, column, g, n);
      load_row<false>(weights, column, args.columns, weight);
#pragma unroll
      for (int i = 0; i < kLongRun; ++i) {
        const S gw = g[i] * weight[i];
        totals[0] += gw;
        totals[1] = ::fma(gw, n[i], totals[1]);
      }
    }
    const S means[2] = {team_sum<BlockTeam>(totals[0]) / static_cast<S>(args.columns),
                        team_sum<BlockTeam>(totals[1]) / static_cast<S>(args.columns)};
    for (std::int64_t column = first; column < args.columns; column += kStep) {
      load_dropped_gradient<T>(args, row, column, g, n);
      load_row<false>(weights, column, args.columns, weight);
      std::uint32_t kept = 0;
      if (args.grad_x) kept = kept_runs<1, kLongRun>(args.dropout, row, column, 0);
      S unused[kLongRun] = {};
      write_gradient<false, T>(args, row, column, kept, g, n, weight, means, unused);
    }
  });
}

/// partial (blocks, 2, C): thread i has one column of one block.
template <class T>
__global__ void layer_norm_long_columns(LayerNormBackwardArgs args, std::int64_t blocks,
                                        compute_t<T>* partial) {
  using S = compute_t<T>;
  grid_stride(blocks * args.columns, [&](std::int64_t i) {
    const std::int64_t block = i / args.columns, column = i % args.columns;
    const std::int64_t begin = block * kLayerNormBlock, end = begin + kLayerNormBlock;
    S sum_weight = 0, sum_bias = 0;
    for (std::int64_t row = begin; row < end && row < args.rows; ++row) {
      S g[1], n[1];
      load_dropped_gradient<T>(args, row, column, g, n);
      sum_weight = ::fma(g[0], n[0], sum_weight);
      sum_bias += g[0];
    }
    S* const at = partial + 2 * block * args.columns + column;
    at[0] = sum_weight;
    at[args.columns] = sum_bias;
  });
}

template <class T>
void launch_layer_norm_backward_long(const LayerNormBackwardArgs& args, Device device,
                                     compute_t<T>* partial) {
  const std::int64_t blocks = layer_norm_blocks(args.rows);
  if (args.grad_residual || args.grad_x)
    launch("layer_norm_backward", device, layer_norm_backward_long<T>, grid_for(args.rows, 1),
           kThreads, 0, args);
  if (partial)
    launch("layer_norm_backward", device, layer_norm_long_columns<T>,
           grid_for(blocks * args.columns), kThreads, 0, args, blocks, partial);
}

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

template <class T>
void layer_norm(const LayerNormArgs& args, Device device) {
  args.residual ? forward<T, true>(args, device) : forward<T, false>(args, device);
}

// ---- backward -----------------------------------------------------------------------------

// Partial column sums (parts, kinds, C): for weight and bias, perhaps x_sums. A block of rows has
// kGroups parts, the last one perhaps fewer.
template <class S>
struct Partials {
  const S* sums;
  std::int64_t parts;
  unsigned kinds;
  std::int64_t columns;
  S* out[3];     // (C) of each kind, may be null
  bool keep[3];  // whether the sum is added to what is there
};

// out = beta out + the sums over the blocks, each the sum of its groups in order. A block of
// threads takes kWarp columns of one kind. Each of its kReduceRows rows of threads takes every
// kReduceRows-th block; their sums are then added in order.
constexpr int kReduceRows = 32;
constexpr int kReduceThreads = kWarp * kReduceRows;

template <class S, int kGroups>
__global__ void __launch_bounds__(kReduceThreads) add_partials(Partials<S> all) {
  __shared__ S sums[kReduceRows][kWarp];
  const unsigned kind = blockIdx.y;
  S* const out = kind == 0 ? all.out[0] : kind == 1 ? all.out[1] : all.out[2];
  const bool keep = kind == 0 ? all.keep[0] : kind == 1 ? all.keep[1] : all.keep[2];
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const std::int64_t apart = all.kinds * all.columns;
  const S* const from = all.sums + kind * all.columns + column;
  S total = 0;
  if (out && column < all.columns) {
#pragma unroll 8 / kGroups
    for (std::int64_t part = threadIdx.y * kGroups; part < all.parts;
         part += kReduceRows * kGroups) {
      S block = from[part * apart];
#pragma unroll
      for (int group = 1; group < kGroups; ++group)
        block += part + group < all.parts ? from[(part + group) * apart] : S{0};
      total += block;
    }
  }
  sums[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || !out || column >= all.columns) return;
  for (int row = 1; row < kReduceRows; ++row) total += sums[row][threadIdx.x];
  out[column] = keep ? total + out[column] : total;
}

template <class S>
void launch_add(const Partials<S>& all, int groups, Device device) {
  const auto kernel = groups == 1   ? add_partials<S, 1>
                      : groups == 2 ? add_partials<S, 2>
                      : groups == 4 ? add_partials<S, 4>
                                    : add_partials<S, kPlanGroups>;
  const dim3 grid(static_cast<unsigned>((all.columns + kWarp - 1) / kWarp), all.kinds);
  launch("layer_norm_backward", device, kernel, grid, dim3(kWarp, kReduceRows), 0, all);
}

// One parameter may be the target of several kinds. The threads of one launch are not ordered, so
// each kind then has its own launch.
template <class S>
void add(const Partials<S>& all, int groups, Device device) {
  const auto same = [&](int a, int b) { return all.out[a] && all.out[a] == all.out[b]; };
  if (!same(0, 1) && !same(0, 2) && !same(1, 2)) return launch_add(all, groups, device);
  for (const int kind : {0, 1, 2}) {
    Partials<S> one = all;
    for (const int other : {0, 1, 2})
      if (other != kind) one.out[other] = nullptr;
    if (one.out[kind]) launch_add(one, groups, device);
  }
}

template <class T>
void layer_norm_backward(const LayerNormBackwardArgs& args, Device device) {
  using S = compute_t<T>;
  const bool planned = args.columns <= kPlanColumns && !std::is_same_v<T, double>;
  const std::int64_t blocks = layer_norm_blocks(args.rows);
  const LayerNormPlan plan =
      planned ? layer_norm_plan(blocks, args.columns, kPack<T>) : LayerNormPlan{0, 1};
  void* const x_sums = planned ? args.x_sums : nullptr;
  const bool sums = args.grad_weight || args.grad_bias || x_sums;
  Partials<S> all{
      nullptr,
      plan.parts(args.rows),
      x_sums ? 3u : 2u,
      args.columns,
      {static_cast<S*>(args.grad_weight), static_cast<S*>(args.grad_bias), static_cast<S*>(x_sums)},
      {args.beta_weight != 0, args.beta_bias != 0, args.beta_x_sums != 0}};
  const Workspace partial(
      device, sums ? static_cast<std::size_t>(all.parts * all.kinds * all.columns) * sizeof(S) : 0);
  all.sums = partial.as<S>();
  if constexpr (!std::is_same_v<T, double>)
    if (planned) launch_layer_norm_backward<T>(args, device, plan, partial.as<S>());
  if (!planned) launch_layer_norm_backward_long<T>(args, device, partial.as<S>());
  if (sums) add(all, plan.groups, device);
  if (args.x_sums && !x_sums) sum_rows_kernel(x_sums_of(args), device);
}

}  // namespace

void register_layer_norm() {
  RINGLET_SET_FLOATING(cuda, layer_norm);
  RINGLET_SET_FLOATING(cuda, layer_norm_backward);
}

}  // namespace ringlet::cuda
