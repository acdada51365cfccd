// The backward of 64 queries of a long sentence: gradients of queries and of the relative bias.
// Rows g and g + 8 of a warp's products are its queries g and g + 8.
#pragma once

#include "ringlet/cuda/attention_long_backward.cuh"

namespace ringlet::cuda {

/// Per warp: the gradient of the bias by distance, and a tile's gradients of scores by distance.
struct BiasSums {
  static constexpr int kStride = 20;  // of four words of eight distances in distinct banks
  float by_distance[kDistances];
  float skewed[31 * kStride];  // 16 queries per distance; elements that no score reaches stay 0
};

/// Two stages of keys and values, then the bias' sums of the warps.
template <int kHead>
inline constexpr unsigned kQueryStage = 2 * kTileBytes<kHead>;
template <int kHead>
inline constexpr unsigned kQueryBlockBytes = 2 * kQueryStage<kHead> + 4 * sizeof(BiasSums);

template <int kHead>
struct QueryRows {
  Words<4> query[kHead / 16], grad[kHead / 16];
  float grad_query[kHead / 8][4];
  float lse[2], mean[2];
  float far[2];  // gradient of the bias beyond kFar, on the left and on the right
};

template <int kHead>
__device__ __forceinline__ void copy_keys(const LongBackward& block, std::uint32_t stage, int key) {
  block.copy_part<kHead>(stage, 1, key, block.tile.attended);
  block.copy_part<kHead>(stage + kTileBytes<kHead>, 2, key, block.tile.attended);
  commit_copies();
}

/// Scores become the gradient of the scores. 16 keys from `key` on.
template <int kHead>
__device__ __forceinline__ void weigh_queries(const LongBackward& block,
                                              const AttentionItem& queries, int key,
                                              const QueryRows<kHead>& own, float (&score)[2][4],
                                              float (&grad)[2][4]) {
  const AttentionShape& shape = block.args.shape;
  const int lane = block.lane, t = lane % 4;
  const float* bias = block.bias + kMiddle + tile_distance(key, queries.begin) + 4 * t - lane / 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int n = i / 4, e = i % 2, r = i % 4 / 2;
    const float b = bias[2 * n + e - 8 * r];
    float& p = score[n][i % 4];
    p = exp2_approx(fmaf(p, queries.scale * kLog2E, b) - own.lse[r]);
  }
  if (key + kTileRows > queries.attended || queries.rows < kTileRows) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int column = 4 * t + i / 4 * 2 + i % 2, row = lane / 4 + i % 4 / 2 * 8;
      if (key + column >= queries.attended || row >= queries.rows) score[i / 4][i % 4] = 0;
    }
  }
  PhiloxBlock words{};
  if (shape.dropout.threshold) words = words_of_queries(shape, queries, key, lane);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int n = i / 4, e = i % 2, r = i % 4 / 2;
    const float mean = own.mean[r], g = fmaf(grad[n][i % 4], queries.kept, -mean);
    const bool kept = keeps(words.word[2 * n + e], r, shape.dropout);
    score[n][i % 4] *= kept ? g : -mean;
  }
}

/// Adds a tile's gradients of scores to the sums by distance.
template <int kHead>
__device__ __forceinline__ void add_bias(BiasSums& sums, const float (&score)[2][4], int distance,
                                         int lane, QueryRows<kHead>& own) {
  if (distance - 15 >= kFar || distance + 15 <= -kFar) {
    const float(&s)[2][4] = score;
    const float total =
        ((s[0][0] + s[0][1]) + (s[0][2] + s[0][3])) + ((s[1][0] + s[1][1]) + (s[1][2] + s[1][3]));
    own.far[0] += distance > 0 ? 0 : total;
    own.far[1] += distance > 0 ? total : 0;
    return;
  }
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = g + i / 2 * 8, column = 4 * t + 2 * n + i % 2;
      sums.skewed[(column - row + 15) * BiasSums::kStride + row] = score[n][i];
    }
  __syncwarp();
  if (lane < 31) {
    const float4* from = reinterpret_cast<const float4*>(sums.skewed + lane * BiasSums::kStride);
    float total = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 x = from[i];
      total += (x.x + x.y) + (x.z + x.w);
    }
    sums.by_distance[kMiddle + distance + lane - 15] += total;
  }
  __syncwarp();
}

template <int kHead>
__device__ __forceinline__ void add_keys(const LongBackward& block, const AttentionItem& queries,
                                         std::uint32_t stage, int key, BiasSums* sums, bool biased,
                                         QueryRows<kHead>& own) {
  const LaneOffsets<kHead> offsets(block.lane);
#pragma unroll 1
  for (int i = 0; i < kBlockRows / kTileRows; ++i, key += kTileRows) {
    if (key >= queries.attended) return;
    const std::uint32_t keys = stage + i * kTileRows * kHead * 2;
    float score[2][4], grad[2][4];
    multiply_rows<kHead>(score, own.query, keys, offsets.along);
    multiply_rows<kHead>(grad, own.grad, keys + kTileBytes<kHead>, offsets.along);
    weigh_queries(block, queries, key, own, score, grad);
    if (biased) add_bias(*sums, score, tile_distance(key, queries.begin), block.lane, own);
    multiply_columns<kHead>(own.grad_query, pack_products(score), keys, offsets.across);
  }
}

/// Loads the warp's queries and their gradients through the second stage, and the outputs through
/// the memory of the bias' sums.
template <int kHead>
__device__ __forceinline__ void load_query_rows(const LongBackward& block,
                                                const AttentionItem& queries, std::uint32_t memory,
                                                QueryRows<kHead>& own) {
  constexpr unsigned kTile1 = kTileBytes<kHead>;
  static_assert(kTile1 <= 4 * sizeof(BiasSums));
  const std::uint32_t second = memory + kQueryStage<kHead>;
  const int begin = block.tile.begin, row = kTileRows * block.warp;
  block.copy_part<kHead>(second, 0, begin, queries.length);
  block.copy_output<kHead>(second + kTile1, block.args.grad, begin);
  block.copy_output<kHead>(second + 2 * kTile1, block.args.out, begin);
  copy_keys<kHead>(block, memory, 0);
  block.fill_bias_together();
  wait_for_copies<0>();
  __syncthreads();
  load_rows<kHead>(own.query, second, row, 1, 8, block.lane);
  load_rows<kHead>(own.grad, second + kTile1, row, 1, 8, block.lane);
  const int g = block.lane / 4, owner = 4 * g + g / 2;
  const float2 means = row_products<kHead>(second + kTile1, second + 2 * kTile1, row, block.lane);
  own.mean[0] = __shfl_sync(kAllLanes, means.x, owner);
  own.mean[1] = __shfl_sync(kAllLanes, means.y, owner);
  for (int r = 0; r < 2; ++r) own.lse[r] = block.lse(queries.begin + g + 8 * r);
  __syncthreads();
}

__device__ __forceinline__ void clear_sums(BiasSums& sums, int lane) {
  auto* const words = reinterpret_cast<float*>(&sums);
  for (unsigned i = static_cast<unsigned>(lane); i < sizeof(BiasSums) / sizeof(float); i += kLanes)
    words[i] = 0;
  __syncwarp();
}

template <int kHead>
__device__ __forceinline__ void store_bias(BiasSums& sums, float* buckets,
                                           const QueryRows<kHead>& own, int lane) {
  const float left = warp_sum(own.far[0]), right = warp_sum(own.far[1]);
  if (lane == 0) {
    sums.by_distance[kMiddle - kFar] += left;
    sums.by_distance[kMiddle + kFar] += right;
  }
  store_buckets(lane, buckets, sums.by_distance, {-kMiddle, kMiddle});
}

/// `buckets`: of the tile's first 16 queries; null if the bias needs no gradient.
template <int kHead>
__device__ __forceinline__ void long_queries(const LongBackward& block, float* buckets) {
  const AttentionItem queries = rows_of_warp(block.tile, block.warp);
  const std::uint32_t memory = shared_address(block.memory);
  auto* sums = reinterpret_cast<BiasSums*>(block.memory + 2 * kQueryStage<kHead>) + block.warp;
  QueryRows<kHead> own{};
  load_query_rows<kHead>(block, queries, memory, own);
  if (buckets) clear_sums(*sums, block.lane);
  std::uint32_t stage = memory;
  for (int key = 0; key < queries.attended; key += kBlockRows) {
    if (key > 0) {
      wait_for_copies<0>();
      __syncthreads();
    }
    const std::uint32_t next = 2 * memory + kQueryStage<kHead> - stage;
    if (key + kBlockRows < queries.attended) copy_keys<kHead>(block, next, key + kBlockRows);
    if (queries.rows > 0)
      add_keys<kHead>(block, queries, stage, key, sums, buckets != nullptr, own);
    stage = next;
  }
  __syncthreads();
  if (queries.rows <= 0) return;
  const std::int64_t stride = qkv_stride(block.args.shape);
  store_rows<kHead>(grad_part<bfloat16>(block.args, queries, 0) + queries.begin * stride, stride,
                    queries.rows, own.grad_query, queries.scale,
                    block.memory + block.warp * kTileRows * kHead * 2, 1, 8, block.lane);
  if (buckets) store_bias(*sums, buckets + block.warp * kRelativeBuckets, own, block.lane);
}

}  // namespace ringlet::cuda
