// Backward of a tile of 16 rows on tensor cores, by a warp: of queries, keys 16 at a time, or of
// keys, queries 16 at a time. For keys the scores are transposed, with keys in rows: rows g and
// g + 8 of a product are keys 2g and 2g + 1.
#pragma once

#include "ringlet/cuda/attention_forward.cuh"
#include "ringlet/cuda/attention_work.cuh"

namespace ringlet::cuda {

// ---- queries ------------------------------------------------------------------------------

/// A lane's registers, for queries g and g + 8 (r = 0, 1).
template <int kHead>
struct QueryPassLane {
  Along<kHead> query[2], grad[2], out[2];
  Along<kHead> key[2], value[2];  // a product's columns each
  Across<kHead> across[1];        // of keys
  float score[2][4];              // later its gradient
  float grad_p[2][4];             // before dropout
  float grad_query[kHead / 8][4];
  float lse[2];  // times log2 e
  PhiloxBlock words;
};

template <int kHead, class Lane>
__device__ __forceinline__ void load_query_pass(int lane, Lane& s,
                                                const AttentionBackwardArgs& args,
                                                const AttentionItem& item) {
  const HeadRows grads{grad_of<bfloat16>(args, item), out_stride(args.shape), item.length};
  const HeadRows outs{out_of<bfloat16>(args, item), out_stride(args.shape), item.length};
  const float* lse = static_cast<const float*>(args.lse) + item.lse(args.shape) + item.begin;
  load_queries<kHead>(lane, s, args.shape, item);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + 8 * r;
    s.grad[r] = load_along<kHead>(grads.row(item.begin + row), lane);
    s.out[r] = load_along<kHead>(outs.row(item.begin + row), lane);
    s.lse[r] = row < item.rows ? lse[row] * kLog2E : 0;
  }
}

/// Loads the keys from `key` on, and draws their dropout while the loads are in flight.
template <int kHead, class Lane>
__device__ __forceinline__ void load_keys_of_queries(int lane, Lane& s, const AttentionShape& shape,
                                                     const AttentionItem& item, int key) {
  const HeadRows keys{part_of<bfloat16>(shape, item, 1), qkv_stride(shape), item.attended};
  const HeadRows values{part_of<bfloat16>(shape, item, 2), qkv_stride(shape), item.attended};
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const int row = key + row_of_column(n, lane / 4);
    s.key[n] = load_along<kHead>(keys.row(row), lane);
    s.value[n] = load_along<kHead>(values.row(row), lane);
  }
  if (shape.dropout.threshold) s.words = words_of_queries(shape, item, key, lane);
}

/// Scores become their gradient. Rows and keys beyond the sentence have none. They repeat the last
/// row and key, so their products may overflow, and their bias is any.
template <class Lane>
__device__ __forceinline__ void query_pass_weights(const AttentionShape& shape,
                                                   const AttentionItem& item,
                                                   const BackwardMemory<float>& memory, int key,
                                                   int lane, Lane& s) {
  const int g = lane / 4, first = column_of(0, lane % 4, 0);  // of the lane's four columns
  const float* bias = memory.bias + kMiddle + tile_distance(key, item.begin) + first - g;
  const int columns = item.attended - key - first;  // of those
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int n = i / 4, r = i % 4 / 2, column = 2 * n + i % 2;
    const bool real = g + 8 * r < item.rows && column < columns;
    float& score = s.score[n][i % 4];
    const float b = shape.relative_bias ? bias[column - 8 * r] : 0;
    const float p = exp2_approx(multiply_add(score, item.scale * kLog2E, b) - s.lse[r]);
    float grad = s.grad_p[n][i % 4] * item.kept;
    if (shape.dropout.threshold) grad = keeps(s.words.word[column], r, shape.dropout) ? grad : 0;
    score = real ? p * (grad - memory.sums.mean[g + 8 * r]) : 0;
  }
}

/// Adds a lane's gradients of 16 x 16 scores to the sums by distance. In `skewed` a distance is a
/// column; elements that no score reaches stay 0.
template <class Lane>
__device__ __forceinline__ void add_distances(int lane, Lane& s, BackwardMemory<float>& memory,
                                              int distance) {
  const int row = lane / 4;
  float* own = &memory.skewed[row][column_of(0, lane % 4, 0) - row + 15];
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) own[2 * n + i % 2 + i / 2 * (8 * 32 - 8)] = s.score[n][i];
  __syncwarp();
  if (lane < 31) {
    float total = 0;
#pragma unroll
    for (int row = 0; row < 16; ++row) total += memory.skewed[row][lane];
    memory.by_distance[kMiddle + distance + lane - 15] += total;
  }
  __syncwarp();
}

__device__ __forceinline__ void clear_query_pass(int lane, BackwardMemory<float>& memory,
                                                 DistanceRange range) {
  for (int row = 0; row < 16; ++row) memory.skewed[row][lane] = 0;
  clear_distances(lane, memory.by_distance, range);
}

template <int kHead>
__device__ __forceinline__ void attention_query_pass(int lane, const AttentionBackwardArgs& args,
                                                     const AttentionWork& work,
                                                     const AttentionItem& item,
                                                     BackwardMemory<float>& memory) {
  using Lane = QueryPassLane<kHead>;
  const AttentionShape& shape = args.shape;
  const DistanceRange range =
      tile_distances(0, (item.attended - 1) / kTileRows * kTileRows, item.begin, item.begin);
  const HeadRows keys{part_of<bfloat16>(shape, item, 1), qkv_stride(shape), item.attended};
  Lane s{};
  load_query_pass<kHead>(lane, s, args, item);
  load_keys_of_queries<kHead>(lane, s, shape, item, 0);
  if (shape.relative_bias) fill_bias(lane, memory.bias, shape, item.head, range, kLog2E);
  if (work.buckets) clear_query_pass(lane, memory, range);
  fill_means<kHead>(lane, s, memory.sums, [](int r, int g) { return g + 8 * r; });
  for (int key = 0; key < item.attended; key += kTileRows) {
    if (key > 0) load_keys_of_queries<kHead>(lane, s, shape, item, key);
    multiply_along<kHead>(s.score, s.query, s.key);
    multiply_along<kHead>(s.grad_p, s.grad, s.value);
    // After this barrier `across` reuses the registers of `key` and `value`. The rows are still in
    // the L1 cache.
    __syncwarp();
    s.across[0] = load_across<kHead>(keys, key, lane);
    query_pass_weights(shape, item, memory, key, lane, s);
    multiply_across<kHead>(s.grad_query, s.score, s.across, 0);
    if (work.buckets) add_distances(lane, s, memory, tile_distance(key, item.begin));
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (const int row = lane / 4 + 8 * r; row < item.rows)
      store_row<kHead>(grad_part<bfloat16>(args, item, 0) + (item.begin + row) * qkv_stride(shape),
                       s.grad_query, r, item.scale, lane);
  if (work.buckets)
    store_buckets(lane, static_cast<float*>(work.buckets) + item.index * kRelativeBuckets,
                  memory.by_distance, range);
}

// ---- keys ---------------------------------------------------------------------------------

/// A lane's registers, for keys 2g and 2g + 1 (r = 0, 1).
template <int kHead>
struct KeyPassLane {
  Along<kHead> key[2], value[2];
  Along<kHead> query[2], grad[2], out[2];  // a product's columns each
  Across<kHead> across[1];                 // of gradients, then of queries
  float score[2][4];                       // later P after dropout
  float grad_p[2][4];                      // later the gradient of the scores
  float grad_key[kHead / 8][4], grad_value[kHead / 8][4];
  std::uint32_t kept;
};

/// Loads the tile's keys (part 1) or values (part 2).
template <int kHead>
__device__ __forceinline__ void load_key_pass(Along<kHead> (&to)[2], int lane,
                                              const AttentionShape& shape,
                                              const AttentionItem& item, int part) {
  const HeadRows rows{part_of<bfloat16>(shape, item, part), qkv_stride(shape), item.length};
#pragma unroll
  for (int r = 0; r < 2; ++r)
    to[r] = load_along<kHead>(rows.row(item.begin + lane / 4 * 2 + r), lane);
}

/// Loads the queries from `query` on, and draws which of their weights dropout keeps, before the
/// products wait for the loads.
template <int kHead, class Lane>
__device__ __forceinline__ void load_queries_of_keys(int lane, Lane& s,
                                                     const AttentionBackwardArgs& args,
                                                     const AttentionItem& item,
                                                     const HeadRows& queries, const HeadRows& grads,
                                                     int query, QuerySums& sums) {
  const HeadRows outs{out_of<bfloat16>(args, item), out_stride(args.shape), item.length};
  const float* lse = static_cast<const float*>(args.lse) + item.lse(args.shape);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const int row = query + row_of_column(n, lane / 4);
    s.query[n] = load_along<kHead>(queries.row(row), lane);
    s.grad[n] = load_along<kHead>(grads.row(row), lane);
    s.out[n] = load_along<kHead>(outs.row(row), lane);
  }
  if (args.shape.dropout.threshold) s.kept = kept_of_keys(args.shape, item, query, lane);
  if (lane < kTileRows && query + lane < item.length) sums.lse[lane] = lse[query + lane] * kLog2E;
  if (args.shape.dropout.threshold)
#pragma unroll
    for (int mask = 2; mask <= 4; mask *= 2) s.kept |= __shfl_xor_sync(kAllLanes, s.kept, mask);
  s.kept = own_kept(s.kept, lane);
}

/// Scores become P after dropout, grad P becomes the gradient of the scores.
template <class Lane>
__device__ __forceinline__ void key_pass_weights(const AttentionShape& shape,
                                                 const AttentionItem& item,
                                                 const BackwardMemory<float>& memory, int query,
                                                 int lane, Lane& s) {
  const int key = lane / 4 * 2, first = column_of(0, lane % 4, 0);  // of the lane's four columns
  const float* bias = memory.bias + kMiddle + tile_distance(item.begin, query) + key - first;
  const int columns = item.length - query - first;  // of those
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int n = i / 4, r = i % 4 / 2, column = 2 * n + i % 2;
    const bool real = column < columns;
    float& score = s.score[n][i % 4];
    float& grad = s.grad_p[n][i % 4];
    const float b = shape.relative_bias ? bias[r - column] : 0;
    const float lse = memory.sums.lse[first + column], mean = memory.sums.mean[first + column];
    const float p = real ? exp2_approx(multiply_add(score, item.scale * kLog2E, b) - lse) : 0;
    score = p;
    if (shape.dropout.threshold) {
      const bool kept = s.kept & 1u << (8 * column + r);
      score = kept ? p : 0;
      grad = kept ? grad * item.kept : 0;
    }
    grad = real ? p * (grad - mean) : 0;
  }
}

/// Padding keys, which no query attends to, have no gradient.
template <int kHead>
__device__ __forceinline__ void store_key_pass(const KeyPassLane<kHead>& s, int lane,
                                               const AttentionBackwardArgs& args,
                                               const AttentionItem& item) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 * 2 + r;
    if (row >= item.rows) continue;
    const bool attended = item.begin + row < item.attended;
    const std::int64_t at = (item.begin + row) * qkv_stride(args.shape);
    bfloat16* grad_key = grad_part<bfloat16>(args, item, 1) + at;
    bfloat16* grad_value = grad_part<bfloat16>(args, item, 2) + at;
    if (attended) {
      store_row<kHead>(grad_key, s.grad_key, r, item.scale, lane);
      store_row<kHead>(grad_value, s.grad_value, r, item.kept, lane);
    } else {
      const float none[kHead / 8][4] = {};
      store_row<kHead>(grad_key, none, r, 0, lane);
      store_row<kHead>(grad_value, none, r, 0, lane);
    }
  }
}

template <int kHead>
__device__ __forceinline__ void attention_key_pass(int lane, const AttentionBackwardArgs& args,
                                                   const AttentionItem& item,
                                                   BackwardMemory<float>& memory) {
  using Lane = KeyPassLane<kHead>;
  const auto queries = [&] {
    return HeadRows(part_of<bfloat16>(args.shape, item, 0), qkv_stride(args.shape), item.length);
  };
  const auto grads = [&] {
    return HeadRows(grad_of<bfloat16>(args, item), out_stride(args.shape), item.length);
  };
  Lane s{};
  if (item.begin < item.attended) {
    if (args.shape.relative_bias)
      fill_bias(lane, memory.bias, args.shape, item.head, distances_of_keys(item), kLog2E);
    for (int query = 0; query < item.length; query += kTileRows) {
      __syncwarp();
      load_queries_of_keys<kHead>(lane, s, args, item, queries(), grads(), query, memory.sums);
      load_key_pass<kHead>(s.key, lane, args.shape, item, 1);
      fill_means<kHead>(lane, s, memory.sums, row_of_column);
      // After this barrier they can reuse the registers of `out`.
      load_key_pass<kHead>(s.value, lane, args.shape, item, 2);
      multiply_along<kHead>(s.score, s.key, s.query);
      multiply_along<kHead>(s.grad_p, s.value, s.grad);
      key_pass_weights(args.shape, item, memory, query, lane, s);
      // After a barrier `across` can reuse the registers of `query` and `grad`; the rows are still
      // in the L1 cache.
      __syncwarp();
      s.across[0] = load_across<kHead>(grads(), query, lane);
      multiply_across<kHead>(s.grad_value, s.score, s.across, 0);
      __syncwarp();
      s.across[0] = load_across<kHead>(queries(), query, lane);
      multiply_across<kHead>(s.grad_key, s.grad_p, s.across, 0);
    }
  }
  store_key_pass<kHead>(s, lane, args, item);
}

}  // namespace ringlet::cuda
