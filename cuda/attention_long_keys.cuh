// The backward of 64 keys of a long sentence: gradients of keys and values. Scores are transposed,
// with keys in rows: rows g and g + 8 of a warp's products are its keys 2g and 2g + 1.
#pragma once

#include "ringlet/cuda/attention_long_backward.cuh"

namespace ringlet::cuda {

/// Two stages of queries, gradients and outputs, then the queries' sums.
template <int kHead>
inline constexpr unsigned kKeyStage = 3 * kTileBytes<kHead>;
template <int kHead>
inline constexpr unsigned kKeyBlockBytes = 2 * kKeyStage<kHead> + kBlockRows * sizeof(LongSums);

template <int kHead>
struct KeyRows {
  Words<4> key[kHead / 16], value[kHead / 16];
  float grad_key[kHead / 8][4], grad_value[kHead / 8][4];
};

template <int kHead>
__device__ __forceinline__ void copy_queries(const LongBackward& block, std::uint32_t stage,
                                             int query) {
  constexpr unsigned kTile1 = kTileBytes<kHead>;
  block.copy_part<kHead>(stage, 0, query, block.tile.length);
  block.copy_output<kHead>(stage + kTile1, block.args.grad, query);
  block.copy_output<kHead>(stage + 2 * kTile1, block.args.out, query);
  commit_copies();
}

/// The sums of this warp's 16 of the queries from `query` on.
template <int kHead>
__device__ __forceinline__ void fill_sums(const LongBackward& block, std::uint32_t stage, int query,
                                          LongSums* sums) {
  const int row = kTileRows * block.warp, g = block.lane / 4;
  const float2 means = row_products<kHead>(stage + kTileBytes<kHead>, stage + 2 * kTileBytes<kHead>,
                                           row, block.lane);
  if (block.lane % 4 != g / 2) return;
  sums[row + g] = {block.lse(query + row + g), means.x};
  sums[row + g + 8] = {block.lse(query + row + g + 8), means.y};
}

/// Scores become P after dropout, grad P becomes the gradient of the scores. 16 queries from
/// `query` on.
__device__ __forceinline__ void weigh_keys(const LongBackward& block, const AttentionItem& keys,
                                           int query, const LongSums* sums, float (&score)[2][4],
                                           float (&grad)[2][4]) {
  const AttentionShape& shape = block.args.shape;
  const int lane = block.lane, t = lane % 4;
  const float* bias =
      block.bias + kMiddle + tile_distance(keys.begin, query) + lane / 4 * 2 - 4 * t;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const float4 both = *reinterpret_cast<const float4*>(sums + 4 * t + 2 * n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float b = bias[i / 2 - 2 * n - i % 2];
      score[n][i] =
          exp2_approx(fmaf(score[n][i], keys.scale * kLog2E, b) - (i % 2 ? both.z : both.x));
    }
  }
  if (query + kTileRows > keys.length) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (query + 4 * t + i / 4 * 2 + i % 2 >= keys.length) score[i / 4][i % 4] = 0;
  }
  KeptKeys kept{{~0u, ~0u}};
  if (shape.dropout.threshold) kept = kept_of_keys(shape, keys, query, lane);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const float4 both = *reinterpret_cast<const float4*>(sums + 4 * t + 2 * n);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float p = score[n][i], mean = i % 2 ? both.w : both.y;
      const bool keeps = kept.at(2 * n + i % 2, i / 2);
      score[n][i] = keeps ? p : 0;
      grad[n][i] = p * (keeps ? fmaf(grad[n][i], keys.kept, -mean) : -mean);
    }
  }
}

template <int kHead>
__device__ __forceinline__ void add_queries(const LongBackward& block, const AttentionItem& keys,
                                            std::uint32_t stage, int query, const LongSums* sums,
                                            KeyRows<kHead>& own) {
  const LaneOffsets<kHead> offsets(block.lane);
#pragma unroll 1
  for (int i = 0; i < kBlockRows / kTileRows; ++i) {
    if (query + i * kTileRows >= keys.length) return;
    const std::uint32_t queries = stage + i * kTileRows * kHead * 2;
    const std::uint32_t grads = queries + kTileBytes<kHead>;
    float score[2][4], grad[2][4];
    multiply_rows<kHead>(score, own.key, queries, offsets.along);
    multiply_rows<kHead>(grad, own.value, grads, offsets.along);
    weigh_keys(block, keys, query + i * kTileRows, sums + i * kTileRows, score, grad);
    multiply_columns<kHead>(own.grad_value, pack_products(score), grads, offsets.across);
    multiply_columns<kHead>(own.grad_key, pack_products(grad), queries, offsets.across);
  }
}

/// Keys that no query attends to have a gradient of 0.
template <int kHead>
__device__ __forceinline__ void store_keys(const LongBackward& block, const AttentionItem& keys,
                                           KeyRows<kHead>& own) {
  const int g = block.lane / 4;
  char* const tile = block.memory + block.warp * kTileRows * kHead * 2;
#pragma unroll
  for (int j = 0; j < kHead / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (keys.begin + 2 * g + i / 2 >= keys.attended)
        own.grad_key[j][i] = own.grad_value[j][i] = 0;
  const std::int64_t stride = qkv_stride(block.args.shape), at = keys.begin * stride;
  store_rows<kHead>(grad_part<bfloat16>(block.args, keys, 1) + at, stride, keys.rows, own.grad_key,
                    keys.scale, tile, 2, 1, block.lane);
  store_rows<kHead>(grad_part<bfloat16>(block.args, keys, 2) + at, stride, keys.rows,
                    own.grad_value, keys.kept, tile, 2, 1, block.lane);
}

template <int kHead>
__device__ __forceinline__ void long_keys(const LongBackward& block) {
  const AttentionItem keys = rows_of_warp(block.tile, block.warp);
  const std::uint32_t memory = shared_address(block.memory);
  auto* const sums = reinterpret_cast<LongSums*>(block.memory + 2 * kKeyStage<kHead>);
  const int queries = block.tile.begin < keys.attended ? keys.length : 0;
  KeyRows<kHead> own{};
  if (queries > 0) {
    // Keys and values pass through the second stage.
    const std::uint32_t second = memory + kKeyStage<kHead>;
    block.copy_part<kHead>(second, 1, block.tile.begin, keys.attended);
    block.copy_part<kHead>(second + kTileBytes<kHead>, 2, block.tile.begin, keys.attended);
    copy_queries<kHead>(block, memory, 0);
    block.fill_bias_together();
    wait_for_copies<0>();
    __syncthreads();
    const int row = kTileRows * block.warp;
    load_rows<kHead>(own.key, second, row, 2, 1, block.lane);
    load_rows<kHead>(own.value, second + kTileBytes<kHead>, row, 2, 1, block.lane);
  }
  std::uint32_t stage = memory;
  for (int query = 0; query < queries; query += kBlockRows) {
    wait_for_copies<0>();
    __syncthreads();
    const std::uint32_t next = 2 * memory + kKeyStage<kHead> - stage;
    if (query + kBlockRows < queries) copy_queries<kHead>(block, next, query + kBlockRows);
    fill_sums<kHead>(block, stage, query, sums);
    __syncthreads();
    if (keys.begin < keys.attended) add_queries<kHead>(block, keys, stage, query, sums, own);
    stage = next;
  }
  __syncthreads();
  store_keys<kHead>(block, keys, own);
}

}  // namespace ringlet::cuda
