// The gradients of a LayerNorm for f64 and for rows longer than kPlanColumns. A first kernel has
// one block per row, a second one thread per column of kLayerNormBlock rows. x_sums are separate.
#pragma once

#include "ringlet/cuda/layer_norm_backward.cuh"
#include "ringlet/cuda/normalize_rows.cuh"

namespace ringlet::cuda {

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
        totals[1] = multiply_add(gw, n[i], totals[1]);
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
      sum_weight = multiply_add(g[0], n[0], sum_weight);
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

}  // namespace ringlet::cuda
