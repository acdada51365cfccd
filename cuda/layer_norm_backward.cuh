// The gradients of a LayerNorm, for rows of up to kPlanColumns columns: one block of threads per
// group of rows, as layer_norm_plan.h divides them.
#pragma once

#include "ringlet/cuda/layer_norm_plan.h"
#include "ringlet/cuda/row_dropout.h"
#include "ringlet/cuda/rows.cuh"

namespace ringlet::cuda {

/// Loads V columns of a row: the gradient after the output's dropout, and n.
template <bool kVector, class T, class S, int V>
__device__ __forceinline__ void load_gradient(const LayerNormBackwardArgs& args, std::int64_t row,
                                              std::int64_t column, S (&g)[V], S (&n)[V]) {
  const std::int64_t at = row * args.columns;
  load_row<kVector>(static_cast<const T*>(args.grad) + at, column, args.columns, g);
  load_row<kVector>(static_cast<const T*>(args.z) + at, column, args.columns, n);
}

/// `kept`: bits of the elements that the output's dropout keeps.
template <class S, int V>
__device__ __forceinline__ void finish_gradient(const LayerNormBackwardArgs& args, std::int64_t row,
                                                std::uint32_t kept, S (&g)[V], S (&n)[V]) {
  if (args.output_dropout.threshold > 0) drop(g, kept, args.output_dropout);
  if (!args.mean) return;
  const S mean = static_cast<const S*>(args.mean)[row];
  const S rstd = static_cast<const S*>(args.rstd)[row];
#pragma unroll
  for (int i = 0; i < V; ++i) n[i] = (n[i] - mean) * rstd;
}

/// grad_z = rstd (g w - mean(g w) - n mean(g w n)), and grad_x = dropout(grad_z); `kept` has the
/// bits of that dropout. Adds grad_x as stored, or else grad_z, to `sums`.
template <bool kVector, class T, class S, int V>
__device__ __forceinline__ void write_gradient(const LayerNormBackwardArgs& args, std::int64_t row,
                                               std::int64_t column, std::uint32_t kept,
                                               const S (&g)[V], const S (&n)[V],
                                               const S (&weight)[V], const S (&means)[2],
                                               S (&sums)[V]) {
  const std::int64_t at = row * args.columns;
  const S rstd = static_cast<const S*>(args.rstd)[row];
  S out[V];
#pragma unroll
  for (int i = 0; i < V; ++i) out[i] = rstd * (g[i] * weight[i] - means[0] - n[i] * means[1]);
  if (args.grad_residual)
    store_row<kVector>(static_cast<T*>(args.grad_residual) + at, column, args.columns, out);
  if (args.grad_x) {
    drop(out, kept, args.dropout);
    store_row<kVector>(static_cast<T*>(args.grad_x) + at, column, args.columns, out);
  }
#pragma unroll
  for (int i = 0; i < V; ++i) sums[i] += to_compute(from_compute<T>(out[i]));
}

/// The sums over all columns of kPlanRows rows, from each thread's columns: over its warp, then
/// over the group's warps in order. `exchange` is the group's buffer for the batch.
template <class S>
__device__ __forceinline__ void sum_columns(S (&totals)[kPlanRows][2], S* exchange, int warp,
                                            int warps) {
  S* flat = &totals[0][0];
#pragma unroll
  for (int i = 0; i < 2 * kPlanRows; ++i) {
    flat[i] = warp_sum(flat[i]);
    if (threadIdx.x % kWarp == 0) exchange[warp * 2 * kPlanRows + i] = flat[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2 * kPlanRows; ++i) flat[i] = 0;
  for (int w = 0; w < warps; ++w)
#pragma unroll
    for (int i = 0; i < 2 * kPlanRows; ++i) flat[i] += exchange[w * 2 * kPlanRows + i];
}

/// partial (groups, 2 or 3, C): the column sums of each group for weight, bias and x_sums.
template <class T, bool kVector>
__global__ void __launch_bounds__(kPlanThreads)
    layer_norm_backward_rows(LayerNormBackwardArgs args, LayerNormPlan plan,
                             compute_t<T>* partial) {
  using S = compute_t<T>;
  constexpr int V = kPack<T>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  S* const exchange = reinterpret_cast<S*>(shared_bytes);

  const std::int64_t column = std::int64_t{threadIdx.x} * V;
  const bool wanted = args.grad_residual || args.grad_x;
  S weight[V], sum_weight[V] = {}, sum_bias[V] = {}, sum_x[V] = {};
  load_row<kVector>(static_cast<const S*>(args.weight), column, args.columns, weight);

  const std::int64_t first = std::int64_t{blockIdx.x} * plan.rows();
  for (int batch = 0; batch * kPlanRows < plan.rows(); ++batch) {
    const std::int64_t row = first + batch * kPlanRows;
    S g[kPlanRows][V], n[kPlanRows][V], totals[kPlanRows][2] = {};
    // Columns beyond the end read as zeros, and so does the gradient of rows beyond the last.
#pragma unroll
    for (int r = 0; r < kPlanRows; ++r)
      load_gradient<kVector, T>(args, row + r, row + r < args.rows ? column : args.columns, g[r],
                                n[r]);
    std::uint32_t kept = 0;
    if (args.output_dropout.threshold > 0)
      kept = kept_rows<kPlanRows, V>(args.output_dropout, row, args.rows, column);
#pragma unroll
    for (int r = 0; r < kPlanRows; ++r) {
      if (row + r >= args.rows) continue;
      finish_gradient(args, row + r, kept >> r * V, g[r], n[r]);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const S gw = g[r][i] * weight[i];
        sum_weight[i] = ::fma(g[r][i], n[r][i], sum_weight[i]);
        sum_bias[i] += g[r][i];
        totals[r][0] += gw;
        totals[r][1] = ::fma(gw, n[r][i], totals[r][1]);
      }
    }
    if (!wanted) continue;
    sum_columns(totals, exchange + plan.exchange_place(batch),
                static_cast<int>(threadIdx.x) / kWarp, plan.warps());
    if (args.grad_x) kept = kept_rows<kPlanRows, V>(args.dropout, row, args.rows, column);
#pragma unroll
    for (int r = 0; r < kPlanRows; ++r) {
      if (row + r >= args.rows) continue;
      const S means[2] = {totals[r][0] / static_cast<S>(args.columns),
                          totals[r][1] / static_cast<S>(args.columns)};
      write_gradient<kVector, T>(args, row + r, column, kept >> r * V, g[r], n[r], weight, means,
                                 sum_x);
    }
  }

  if (!partial) return;
  const int kinds = args.x_sums ? 3 : 2;
#pragma unroll
  for (int kind = 0; kind < 3; ++kind)
    if (kind < kinds)
      store_row<kVector>(partial + (std::int64_t{blockIdx.x} * kinds + kind) * args.columns, column,
                         args.columns,
                         kind == 0   ? sum_weight
                         : kind == 1 ? sum_bias
                                     : sum_x);
}

template <class T>
void launch_layer_norm_backward(const LayerNormBackwardArgs& args, Device device,
                                const LayerNormPlan& plan, compute_t<T>* partial) {
  const bool vector = rows_fit_packs<T>(args.columns, args.grad, args.z, args.weight, args.grad_x,
                                        args.grad_residual, partial);
  launch("layer_norm_backward", device,
         vector ? layer_norm_backward_rows<T, true> : layer_norm_backward_rows<T, false>,
         static_cast<unsigned>(plan.parts(args.rows)), static_cast<unsigned>(plan.threads),
         static_cast<std::size_t>(plan.exchange()) * sizeof(compute_t<T>), args, plan, partial);
}

}  // namespace ringlet::cuda
