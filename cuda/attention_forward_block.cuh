// Forward of 64 queries of one head by a block, for sentences of more than 64 tokens. Each warp has
// 16 of the queries. All share a tile of 64 keys and values in shared memory, while the next one
// arrives.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_forward.cuh"
#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/attention_weights.cuh"
#include "ringlet/cuda/tile.cuh"

namespace ringlet::cuda {

// The bias by distance four times: with lane g's copy g % 4, the biases of four adjacent keys begin
// at a multiple of 16 bytes. Copies are half of the banks apart.
inline constexpr int kBiasStride = kDistances + 16;
static_assert(kBiasStride % 32 == 16);
using BiasCopies = float[4][kBiasStride];

/// Distance 0 of copy c is element kMiddle + c + 1. By a whole block, without a barrier.
__device__ __forceinline__ void fill_copies(BiasCopies& bias, const AttentionShape& shape,
                                            std::int64_t head, float factor) {
  const float* table = static_cast<const float*>(shape.relative_bias) + head;
  for (int d = static_cast<int>(threadIdx.x) - kMiddle; d <= kMiddle; d += kTileThreads) {
    const float x = table[relative_position_bucket(d) * shape.heads] * factor;
#pragma unroll
    for (int c = 0; c < 4; ++c) bias[c][kMiddle + c + 1 + d] = x;
  }
}

template <int kHead>
struct ForwardBlockMemory {
  alignas(128) char query[kTileBytes<kHead>];  // later the output
  alignas(128) char key[2][kTileBytes<kHead>];
  alignas(128) char value[2][kTileBytes<kHead>];
  alignas(16) BiasCopies bias;
  AttentionItem item;
};

/// A lane's registers, for queries g and g + 8 (r = 0, 1) of its warp.
template <int kHead>
struct ForwardBlockLane {
  Words<4> query[kHead / 16];
  float score[4][2][4];  // of 16 keys each; later P, not normalised
  float out[kHead / 8][4];
  float top[2];  // maximum of scores times log2 e
  float total[2];
};

/// Adds the bias, which is divided by the scale; -infinity beyond the last key.
template <int kHead>
__device__ __forceinline__ void finish_block_scores(ForwardBlockLane<kHead>& s, bool biased,
                                                    const BiasCopies& bias, int key, int query,
                                                    int attended, int lane) {
  const int g = lane / 4, t = lane % 4;
  if (biased)
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const int distance = min(max(key + 16 * m - query, -kFar - 16), kFar + 16);
      const float* own = bias[g % 4] + (kMiddle + 1 + distance + 4 * t - g / 4 * 4);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float4 b = *reinterpret_cast<const float4*>(own - 8 * r);
        s.score[m][0][2 * r] += b.x;
        s.score[m][0][2 * r + 1] += b.y;
        s.score[m][1][2 * r] += b.z;
        s.score[m][1][2 * r + 1] += b.w;
      }
    }
  if (key + kBlockRows <= attended) return;
#pragma unroll
  for (int i = 0; i < 32; ++i)
    if (key + i / 8 * 16 + column_of(i / 4, t, i % 2) >= attended)
      s.score[i / 8][i / 4 % 2][i % 4] = -std::numeric_limits<float>::infinity();
}

/// P, its sum before dropout, and the sums rescaled to the new maximum. `scale`: of the scores,
/// times log2 e.
template <int kHead>
__device__ __forceinline__ void block_softmax(ForwardBlockLane<kHead>& s, float scale) {
  float peak[2] = {s.score[0][0][0], s.score[0][0][2]};
#pragma unroll
  for (int i = 1; i < 32; ++i)
    peak[i % 4 / 2] = fmaxf(peak[i % 4 / 2], s.score[i / 8][i / 4 % 2][i % 4]);
#pragma unroll
  for (int mask = 1; mask < 4; mask *= 2)
#pragma unroll
    for (float& x : peak) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, mask));
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float top = fmaxf(s.top[r], peak[r] * scale);
    const float factor = exp2_approx(s.top[r] - top);
    s.top[r] = top;
    s.total[r] *= factor;
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) {
      s.out[j][2 * r] *= factor;
      s.out[j][2 * r + 1] *= factor;
    }
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    float& p = s.score[i / 8][i / 4 % 2][i % 4];
    p = exp2_approx(fmaf(p, scale, -s.top[i % 4 / 2]));
    s.total[i % 4 / 2] += p;
  }
  // The sums are complete here, so that dropout may write P in place.
  asm volatile("" : "+f"(s.total[0]), "+f"(s.total[1]));
}

template <int kHead>
__device__ __forceinline__ void drop_block_weights(ForwardBlockLane<kHead>& s,
                                                   const DropoutMask& dropout, const WeightRow& row,
                                                   int key, int lane) {
  if (!dropout.threshold) return;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const PhiloxBlock block = row.words(key / 4 + 4 * m + lane % 4);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (!keeps(block.word[i / 4 * 2 + i % 2], i % 4 / 2, dropout)) s.score[m][i / 4][i % 4] = 0;
  }
}

/// Writes the output and the log-sum-exps of a warp's queries; `own` is 16 rows of shared memory.
template <int kHead>
__device__ __forceinline__ void store_block_rows(ForwardBlockLane<kHead>& s,
                                                 const AttentionArgs& args,
                                                 const AttentionItem& item, char* own, int begin,
                                                 int lane) {
  const int rows = item.rows - begin, row = item.begin + begin;
  float* lse = static_cast<float*>(args.lse) + item.lse + row;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int mask = 1; mask < 4; mask *= 2)
      s.total[r] += __shfl_xor_sync(kAllLanes, s.total[r], mask);
    const float factor = item.kept / s.total[r];
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) {
      s.out[j][2 * r] *= factor;
      s.out[j][2 * r + 1] *= factor;
    }
    if (const int at = lane / 4 + 8 * r; lane % 4 == 0 && at < rows)
      lse[at] = (s.top[r] + ::log2f(s.total[r])) * kLn2;
  }
  const std::int64_t stride = out_stride(args.shape);
  store_rows<kHead>(static_cast<bfloat16*>(args.out) + item.out + row * stride, stride, rows, s.out,
                    1, own, 1, 8, lane);
}

/// Goes over the keys; `copy_keys(key, stage)` starts the copies of a tile. The first has arrived.
template <int kHead, class Copy>
__device__ __forceinline__ void attend_to_tiles(ForwardBlockLane<kHead>& s,
                                                const AttentionShape& shape,
                                                ForwardBlockMemory<kHead>& memory, int begin,
                                                int lane, Copy copy_keys) {
  const AttentionItem& item = memory.item;
  const int attended = item.attended, rows = item.rows, query = item.begin + begin;
  const float scale = item.scale * kLog2E;
  const LaneOffsets<kHead> offsets(lane);
  const WeightRow weights =
      shape.dropout.threshold ? weight_row(shape, item, query + lane / 4) : WeightRow{};
  for (int key = 0, stage = 0; key < attended; key += kBlockRows, stage ^= 1) {
    if (key + kBlockRows < attended) copy_keys(key + kBlockRows, stage ^ 1);
    if (begin < rows) {
#pragma unroll
      for (int m = 0; m < 4; ++m)
        multiply_rows<kHead>(s.score[m], s.query,
                             shared_address(memory.key[stage]) + m * (kTileBytes<kHead> / 4),
                             offsets.along);
      finish_block_scores(s, shape.relative_bias != nullptr, memory.bias, key, query, attended,
                          lane);
      block_softmax(s, scale);
      drop_block_weights(s, shape.dropout, weights, key, lane);
#pragma unroll
      for (int m = 0; m < 4; ++m)
        multiply_columns<kHead>(s.out, pack_products(s.score[m]),
                                shared_address(memory.value[stage]) + m * (kTileBytes<kHead> / 4),
                                offsets.across);
    }
    wait_for_copies<0>();
    __syncthreads();
  }
}

/// The item is in shared memory, to save registers.
template <int kHead>
__device__ __forceinline__ void attention_forward_block(const AttentionArgs& args,
                                                        ForwardBlockMemory<kHead>& memory) {
  const AttentionShape& shape = args.shape;
  const AttentionItem& item = memory.item;
  const std::int64_t stride = qkv_stride(shape);
  const int lane = lane_of_thread();
  const int begin = static_cast<int>(threadIdx.x / kLanes) * kTileRows;
  const int attended = item.attended;
  const bfloat16* keys = part_of<bfloat16>(shape, item, 1);  // the next tile's
  const auto copy_keys = [&](int key, int stage) {
    copy_tile<kHead, kBlockRows, kTileThreads>(shared_address(memory.key[stage]), keys, stride,
                                               attended - key);
    copy_tile<kHead, kBlockRows, kTileThreads>(shared_address(memory.value[stage]),
                                               keys + out_stride(shape), stride, attended - key);
    keys += kBlockRows * stride;
    commit_copies();
  };
  copy_tile<kHead, kBlockRows, kTileThreads>(
      shared_address(memory.query), part_of<bfloat16>(shape, item, 0) + item.begin * stride, stride,
      item.rows);
  copy_keys(0, 0);
  if (shape.relative_bias) fill_copies(memory.bias, shape, item.head, 1 / item.scale);
  wait_for_copies<0>();
  __syncthreads();

  ForwardBlockLane<kHead> s{};
  s.top[0] = s.top[1] = -std::numeric_limits<float>::infinity();
  load_rows<kHead>(s.query, shared_address(memory.query), begin, 1, 8, lane);
  attend_to_tiles(s, shape, memory, begin, lane, copy_keys);
  store_block_rows(s, args, item, memory.query + begin * kHead * 2, begin, lane);
}

}  // namespace ringlet::cuda
