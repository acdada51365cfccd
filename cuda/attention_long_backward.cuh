// Common code of both roles in the backward of long sentences. A block has 64 queries and goes over
// the keys, or 64 keys and goes over the queries. So each sum has one owner, which adds in order.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_forward.cuh"
#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/attention_weights.cuh"
#include "ringlet/cuda/attention_work.cuh"
#include "ringlet/cuda/tile.cuh"
#include "ringlet/cuda/warp.cuh"

namespace ringlet::cuda {

/// The log-sum-exp of a query times log2 e, and its mean of grad P under P.
struct alignas(8) LongSums {
  float lse, mean;
};

/// The tile of a block, and its shared memory.
struct LongBackward {
  const AttentionBackwardArgs& args;
  const AttentionItem& tile;
  char* memory;  // aligned to 128 bytes
  float* bias;   // kDistances
  int warp, lane;

  /// Starts copies of 64 rows of q, k or v; rows from `end` on are 0.
  template <int kHead>
  __device__ __forceinline__ void copy_part(std::uint32_t to, int which, int first, int end) const {
    const std::int64_t stride = qkv_stride(args.shape);
    copy_tile<kHead, kBlockRows, kTileThreads>(
        to, part_of<bfloat16>(args.shape, tile, which) + first * stride, stride, end - first);
  }
  /// The same of a (T, heads d) tensor.
  template <int kHead>
  __device__ __forceinline__ void copy_output(std::uint32_t to, const void* from, int first) const {
    const std::int64_t stride = out_stride(args.shape);
    copy_tile<kHead, kBlockRows, kTileThreads>(
        to, static_cast<const bfloat16*>(from) + tile.out + first * stride, stride,
        tile.length - first);
  }
  __device__ __forceinline__ float lse(int query) const {
    return query < tile.length ? static_cast<const float*>(args.lse)[tile.lse + query] * kLog2E
                               : std::numeric_limits<float>::infinity();
  }
  /// Fills the bias by distance with all warps; without one it is 0.
  __device__ __forceinline__ void fill_bias_together() const {
    const float* table = static_cast<const float*>(args.shape.relative_bias) + tile.head;
    for (int i = static_cast<int>(threadIdx.x); i < kDistances; i += kTileThreads)
      bias[i] = args.shape.relative_bias
                    ? table[relative_position_bucket(i - kMiddle) * args.shape.heads] * kLog2E
                    : 0;
  }
};

/// The 16 rows of a warp; `rows` may be 0 or less.
__device__ __forceinline__ AttentionItem rows_of_warp(AttentionItem tile, int warp) {
  tile.begin += kTileRows * warp;
  const int left = tile.length - tile.begin;
  tile.rows = left < kTileRows ? left : kTileRows;
  return tile;
}

/// The dot products of rows `row` + g and `row` + g + 8 of two tiles, on lane t = g / 2: diagonals
/// of products.
template <int kHead>
__device__ __forceinline__ float2 row_products(std::uint32_t a, std::uint32_t b, int row,
                                               int lane) {
  Words<4> rows[kHead / 16];
  load_rows<kHead>(rows, a, row, 1, 8, lane);
  float low[4] = {}, high[4] = {};
  const int own = row + lane % 8 + lane / 16 * 8;
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step) {
    const Words<4> columns = load_matrices(
        b + static_cast<std::uint32_t>(tile_byte<kHead>(own, 2 * step + lane / 8 % 2)));
    multiply(low, rows[step], columns.word[0], columns.word[1]);
    multiply(high, rows[step], columns.word[2], columns.word[3]);
  }
  return lane / 4 % 2 ? make_float2(low[1], high[3]) : make_float2(low[0], high[2]);
}

}  // namespace ringlet::cuda
