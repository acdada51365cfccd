// Forward of 64 queries of one head by a block, for sentences of more than 64 tokens: a warp has 16
// queries, and all share tiles of 64 keys and values in shared memory, the next of which arrive
// meanwhile. Products are those of attention_tile.h: columns 2t and 2t + 1 of product n are keys
// 4t + 2 (n % 2) and the next one of 16, so that a lane has whole groups of dropout.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_bias.h"
#include "ringlet/cuda/attention_dropout.h"
#include "ringlet/cuda/attention_forward.h"
#include "ringlet/cuda/tensor_core.cuh"
#include "ringlet/cuda/warp.cuh"

namespace ringlet::cuda {

template <int kHead>
struct ForwardBlockMemory {
  using Tile = char[kBlockRows * kHead * sizeof(bfloat16)];
  alignas(128) Tile query;  // later the output
  alignas(128) Tile key[2], value[2];
  float bias[kDistances];
  AttentionItem item;
};

/// A lane's registers, for queries g and g + 8 (r = 0, 1) of its warp.
template <int kHead>
struct ForwardBlockLane {
  Words<4> query[kHead / 16];
  float score[8][4];  // later P, not normalised
  float out[kHead / 8][4];
  float top[2];  // maximum of scores times log2 e
  float total[2];
};

/// Scores of 64 keys. `row`: the address of this lane's row of product 0 and chunk lane / 8.
template <int kHead>
__device__ __forceinline__ void block_scores(ForwardBlockLane<kHead>& s, std::uint32_t row) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int p = 0; p < kHead / 32; ++p) {
      // Rows of odd products have the other bit 2 (of 32 columns: bit 1) of the swizzle.
      const std::uint32_t flip = (kHead == 64 ? (p ^ n % 2) * 64 : n % 2 * 32);
      const Words<4> key = load_matrices(
          (row ^ flip) + static_cast<std::uint32_t>((n / 2 * 16 + n % 2 * 2) * kHead * 2));
      if (p == 0)
        multiply_anew(s.score[n], s.query[0], key.word[0], key.word[1]);
      else
        multiply(s.score[n], s.query[2 * p], key.word[0], key.word[1]);
      multiply(s.score[n], s.query[2 * p + 1], key.word[2], key.word[3]);
    }
  }
}

/// Adds the bias, which is divided by the scale; -infinity beyond the last key.
template <int kHead>
__device__ __forceinline__ void finish_block_scores(ForwardBlockLane<kHead>& s,
                                                    const AttentionShape& shape, const float* bias,
                                                    int key, int query, int attended, int lane) {
  const int g = lane / 4, t = lane % 4;
  if (shape.relative_bias)
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const float* own = bias + (kMiddle + tile_distance(key + 16 * m, query) + 4 * t - g);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        s.score[2 * m + i / 4][i % 4] += own[i / 4 * 2 + i % 2 - i % 4 / 2 * 8];
    }
  if (key + kBlockRows <= attended) return;
#pragma unroll
  for (int i = 0; i < 32; ++i)
    if (key + i / 8 * 16 + column_of(i / 4, t, i % 2) >= attended)
      s.score[i / 4][i % 4] = -std::numeric_limits<float>::infinity();
}

/// P, its sum before dropout, and the sums rescaled to the new maximum. `scale`: of the scores,
/// times log2 e.
template <int kHead>
__device__ __forceinline__ void block_softmax(ForwardBlockLane<kHead>& s, float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float peak = s.score[0][2 * r];
#pragma unroll
    for (int i = 1; i < 16; ++i) peak = fmaxf(peak, s.score[i / 2][2 * r + i % 2]);
#pragma unroll
    for (int mask = 1; mask < 4; mask *= 2)
      peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, mask));
    const float top = fmaxf(s.top[r], peak * scale);
    const float factor = DeviceWarp::exp2(s.top[r] - top);
    s.top[r] = top;
    s.total[r] *= factor;
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) {
      s.out[j][2 * r] *= factor;
      s.out[j][2 * r + 1] *= factor;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& p = s.score[i / 2][2 * r + i % 2];
      p = DeviceWarp::exp2(DeviceWarp::fma(p, scale, -top));
      s.total[r] += p;
    }
  }
}

template <int kHead>
__device__ __forceinline__ void drop_block_weights(ForwardBlockLane<kHead>& s,
                                                   const Dropout& dropout, const WeightRow& row,
                                                   int key, int lane) {
  if (!dropout.threshold) return;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const PhiloxBlock block = row.words(key / 4 + 4 * m + lane % 4);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (!keeps(block.word[i / 4 * 2 + i % 2], i % 4 / 2, dropout))
        s.score[2 * m + i / 4][i % 4] = 0;
  }
}

/// Adds P times 64 values. `row`: the address of this lane's row of products 0 and 1, and of chunk
/// lane / 16.
template <int kHead>
__device__ __forceinline__ void add_block_values(ForwardBlockLane<kHead>& s, std::uint32_t row) {
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const auto& a = s.score[2 * m];
    const auto& b = s.score[2 * m + 1];
    const Words<4> p{{DeviceWarp::pack(a[0], a[1]), DeviceWarp::pack(a[2], a[3]),
                      DeviceWarp::pack(b[0], b[1]), DeviceWarp::pack(b[2], b[3])}};
#pragma unroll
    for (int j = 0; j < kHead / 8; j += 2) {
      const Words<4> value = load_matrices<true>((row ^ static_cast<std::uint32_t>(j * 16)) +
                                                 static_cast<std::uint32_t>(m * 16 * kHead * 2));
      multiply(s.out[j], p, value.word[0], value.word[1]);
      multiply(s.out[j + 1], p, value.word[2], value.word[3]);
    }
  }
}

/// Writes the output and the log-sum-exps of a warp's queries; `own` is 16 rows of shared memory.
template <int kHead>
__device__ __forceinline__ void store_block_rows(ForwardBlockLane<kHead>& s,
                                                 const AttentionArgs& args,
                                                 const AttentionItem& item, char* own, int begin,
                                                 int lane) {
  const int rows = item.rows - begin, g = lane / 4, t = lane % 4;
  float* lse = static_cast<float*>(args.lse) + item.lse(args.shape) + item.begin + begin;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int mask = 1; mask < 4; mask *= 2)
      s.total[r] += __shfl_xor_sync(kAllLanes, s.total[r], mask);
    const float factor = item.kept / s.total[r];
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j)
      *reinterpret_cast<std::uint32_t*>(own + tile_byte<kHead>(g + 8 * r, j) + 4 * t) =
          DeviceWarp::pack(s.out[j][2 * r] * factor, s.out[j][2 * r + 1] * factor);
    if (t == 0 && g + 8 * r < rows)
      lse[g + 8 * r] = (s.top[r] + DeviceWarp::log2(s.total[r])) * kLn2;
  }
  __syncwarp();
  constexpr int kChunks = kHead / 8, kStep = kLanes / kChunks;
  bfloat16* out = static_cast<bfloat16*>(args.out) + item.out(args.shape) +
                  (item.begin + begin) * out_stride(args.shape) + lane % kChunks * 8;
#pragma unroll
  for (int first = 0; first < kTileRows; first += kStep)
    if (const int row = first + lane / kChunks; row < rows)
      DeviceWarp::store(out + row * out_stride(args.shape),
                        DeviceWarp::load<4>(own + tile_byte<kHead>(row, lane % kChunks)));
}

template <int kHead>
__device__ __forceinline__ void attention_forward_block(const AttentionArgs& args,
                                                        ForwardBlockMemory<kHead>& memory) {
  const AttentionShape& shape = args.shape;
  const AttentionItem& item = memory.item;
  const std::int64_t stride = qkv_stride(shape);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int begin = static_cast<int>(threadIdx.x) / kLanes * kTileRows, query = item.begin + begin;
  const bfloat16* keys = part_of<bfloat16>(shape, item, 1);
  const bfloat16* values = part_of<bfloat16>(shape, item, 2);
  const auto copy_keys = [&](int key, int stage) {
    copy_tile<kHead, kBlockRows, kTileThreads>(shared_address(memory.key[stage]),
                                               keys + key * stride, stride, item.attended - key);
    copy_tile<kHead, kBlockRows, kTileThreads>(shared_address(memory.value[stage]),
                                               values + key * stride, stride, item.attended - key);
    commit_copies();
  };
  copy_tile<kHead, kBlockRows, kTileThreads>(
      shared_address(memory.query), part_of<bfloat16>(shape, item, 0) + item.begin * stride, stride,
      item.rows);
  copy_keys(0, 0);
  if (shape.relative_bias) fill_block_bias(memory.bias, shape, item.head, 1 / item.scale);
  wait_for_copies<0>();
  __syncthreads();

  const float scale = item.scale * kLog2E;
  ForwardBlockLane<kHead> s{};
  s.top[0] = s.top[1] = -std::numeric_limits<float>::infinity();
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step)
    s.query[step] =
        load_matrices(shared_address(memory.query) + static_cast<std::uint32_t>(tile_byte<kHead>(
                                                         begin + lane % 16, 2 * step + lane / 16)));
  const WeightRow weights =
      shape.dropout.threshold ? weight_row(shape, item, query + lane / 4) : WeightRow{};
  // A lane's row in the first product (of keys), and in the first two (of values).
  const int row = lane % 8 / 2 * 4 + lane % 2;
  const auto key_row = static_cast<std::uint32_t>(tile_byte<kHead>(row, lane / 8));
  const auto value_row =
      static_cast<std::uint32_t>(tile_byte<kHead>(row + lane / 8 % 2 * 2, lane / 16));
  for (int key = 0, stage = 0; key < item.attended; key += kBlockRows, stage ^= 1) {
    if (key + kBlockRows < item.attended) copy_keys(key + kBlockRows, stage ^ 1);
    if (begin < item.rows) {
      block_scores<kHead>(s, shared_address(memory.key[stage]) + key_row);
      finish_block_scores<kHead>(s, shape, memory.bias, key, query, item.attended, lane);
      block_softmax<kHead>(s, scale);
      drop_block_weights<kHead>(s, shape.dropout, weights, key, lane);
      add_block_values<kHead>(s, shared_address(memory.value[stage]) + value_row);
    }
    wait_for_copies<0>();
    __syncthreads();
  }
  if (begin < item.rows)
    store_block_rows<kHead>(s, args, item, memory.query + begin * kHead * 2, begin, lane);
}

}  // namespace ringlet::cuda
