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
  const int column = column_along(lane);
  const HeadRows grads = rows_of_output<kHead>(args.grad, args.shape, item, column);
  const HeadRows outs = rows_of_output<kHead>(args.out, args.shape, item, column);
  const float* lse = static_cast<const float*>(args.lse) + item.lse;
  load_queries<kHead>(lane, s, args.shape, item);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + 8 * r;
    s.grad[r] = load_along<kHead>(grads.row(item.begin + row));
    s.out[r] = load_along<kHead>(outs.row(item.begin + row));
    s.lse[r] = row < item.rows ? *address_of(lse, item.begin + row, sizeof(float)) * kLog2E : 0;
  }
}

/// Loads the keys from `key` on, and draws their dropout while the loads are in flight.
template <int kHead, class Lane>
__device__ __forceinline__ void load_keys_of_queries(int lane, Lane& s, const AttentionShape& shape,
                                                     const AttentionItem& item, int key) {
  const int column = column_along(lane);
  const HeadRows keys = rows_of_part<kHead>(shape, item, 1, item.attended, column);
  const HeadRows values = rows_of_part<kHead>(shape, item, 2, item.attended, column);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const int row = key + row_of_column(n, lane / 4);
    s.key[n] = load_along<kHead>(keys.row(row));
    s.value[n] = load_along<kHead>(values.row(row));
  }
  if (shape.dropout.threshold) s.words = words_of_queries(shape, item, key, lane);
}

/// Scores become their gradient. Rows and keys beyond the sentence have none. They repeat the last
/// row and key, so their products may overflow, and their bias is any. Words of 0 are kept where
/// nothing is dropped.
template <class Lane>
__device__ __forceinline__ void query_pass_weights(const AttentionShape& shape,
                                                   const AttentionItem& item,
                                                   const BackwardMemory<float>& memory, int key,
                                                   int lane, Lane& s) {
  const int g = lane / 4, first = column_of(0, lane % 4, 0);  // of the lane's four columns
  const float* bias = memory.bias + kMiddle + key - item.begin + first - g;
  const int real = item.attended - key - first;  // of those
  const int columns[2] = {g < item.rows ? real : 0, g + 8 < item.rows ? real : 0};
  const float mean[2] = {memory.sums.mean[g], memory.sums.mean[g + 8]};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int n = i / 4, r = i % 4 / 2, column = 2 * n + i % 2;
    float& score = s.score[n][i % 4];
    const float x = ::fma(score, item.scale * kLog2E, bias[column - 8 * r]);
    const float p = exp2_approx(x - s.lse[r]);
    const float kept = s.grad_p[n][i % 4] * item.kept;
    const float grad = keeps(s.words.word[column], r, shape.dropout) ? kept : 0;
    score = column < columns[r] ? p * (grad - mean[r]) : 0;
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
  const DistanceRange range = distances_of_queries<kTileRows>(item);
  const HeadRows keys =
      rows_of_part<kHead>(shape, item, 1, item.attended, column_across<kHead>(lane));
  Lane s{};
  load_query_pass<kHead>(lane, s, args, item);
  load_keys_of_queries<kHead>(lane, s, shape, item, 0);
  fill_bias(lane, memory.bias, shape, item.head, range, kLog2E);
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
    if (work.buckets) add_distances(lane, s, memory, key - item.begin);
  }
  bfloat16* const to = address_of(static_cast<bfloat16*>(args.grad_qkv) + item.query,
                                  column_stored<kHead>(lane), sizeof(bfloat16));
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (const int row = lane / 4 + 8 * r; row < item.rows)
      store_row<kHead>(address_of(to, item.begin + row, keys.stride), s.grad_query, r, item.scale);
  if (work.buckets)
    store_buckets(lane, static_cast<float*>(work.buckets) + slot_of(shape, item) * kRelativeBuckets,
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
  KeptKeys kept;
};

/// Loads the tile's keys (part 1) or values (part 2).
template <int kHead>
__device__ __forceinline__ void load_key_pass(Along<kHead> (&to)[2], int lane,
                                              const AttentionShape& shape,
                                              const AttentionItem& item, int part) {
  const HeadRows rows = rows_of_part<kHead>(shape, item, part, item.length, column_along(lane));
#pragma unroll
  for (int r = 0; r < 2; ++r) to[r] = load_along<kHead>(rows.row(item.begin + lane / 4 * 2 + r));
}

/// Loads the queries from `query` on, and draws which of their weights dropout keeps, before the
/// products wait for the loads.
template <int kHead, class Lane>
__device__ __forceinline__ void load_queries_of_keys(int lane, Lane& s,
                                                     const AttentionBackwardArgs& args,
                                                     const AttentionItem& item, int query,
                                                     QuerySums& sums) {
  const AttentionShape& shape = args.shape;
  const int column = column_along(lane);
  const HeadRows queries = rows_of_part<kHead>(shape, item, 0, item.length, column);
  const HeadRows grads = rows_of_output<kHead>(args.grad, shape, item, column);
  const HeadRows outs = rows_of_output<kHead>(args.out, shape, item, column);
  const float* lse = static_cast<const float*>(args.lse) + item.lse;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const int row = query + row_of_column(n, lane / 4);
    s.query[n] = load_along<kHead>(queries.row(row));
    s.grad[n] = load_along<kHead>(grads.row(row));
    s.out[n] = load_along<kHead>(outs.row(row));
  }
  s.kept = {{~0u, ~0u}};
  if (shape.dropout.threshold) s.kept = kept_of_keys(shape, item, query, lane);
  if (lane < kTileRows)
    sums.lse[lane] =
        query + lane < item.length ? *address_of(lse, query + lane, sizeof(float)) * kLog2E : 0;
}

/// Scores become P after dropout, grad P becomes the gradient of the scores.
template <class Lane>
__device__ __forceinline__ void key_pass_weights(const AttentionItem& item,
                                                 const BackwardMemory<float>& memory, int query,
                                                 int lane, Lane& s) {
  const int key = lane / 4 * 2, first = column_of(0, lane % 4, 0);  // of the lane's four columns
  const float* bias = memory.bias + kMiddle + tile_distance(item.begin, query) + key - first;
  const int columns = item.length - query - first;  // of those
  // Loads and exp2 before the conditions, which then select and do not branch.
  const float scale = item.scale * kLog2E, share = item.kept;
  const Words<4> lse = load_words<4>(memory.sums.lse + first);
  const Words<4> mean = load_words<4>(memory.sums.mean + first);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int n = i / 4, r = i % 4 / 2, column = 2 * n + i % 2;
    const bool real = column < columns, kept = s.kept.at(column, r);
    float& score = s.score[n][i % 4];
    float& grad = s.grad_p[n][i % 4];
    const float x = ::fma(score, scale, bias[r - column]), scaled = grad * share;
    const float weight = exp2_approx(x - __uint_as_float(lse.word[column]));
    const float p = real ? weight : 0;
    score = kept ? p : 0;
    grad = (kept ? scaled : 0) - __uint_as_float(mean.word[column]);
    grad = real ? p * grad : 0;
  }
}

/// Padding keys, which no query attends to, have no gradient.
template <int kHead>
__device__ __forceinline__ void store_key_pass(const KeyPassLane<kHead>& s, int lane,
                                               const AttentionBackwardArgs& args,
                                               const AttentionItem& item) {
  const int width = static_cast<int>(args.shape.heads) * kHead;
  bfloat16* const to = address_of(static_cast<bfloat16*>(args.grad_qkv) + item.query,
                                  column_stored<kHead>(lane), sizeof(bfloat16));
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 * 2 + r;
    if (row >= item.rows) continue;
    bfloat16* grad_key = address_of(to + width, item.begin + row, 6 * width);
    bfloat16* grad_value = grad_key + width;
    if (item.begin + row < item.attended) {
      store_row<kHead>(grad_key, s.grad_key, r, item.scale);
      store_row<kHead>(grad_value, s.grad_value, r, item.kept);
    } else {
      const float none[kHead / 8][4] = {};
      store_row<kHead>(grad_key, none, r, 0);
      store_row<kHead>(grad_value, none, r, 0);
    }
  }
}

template <int kHead>
__device__ __forceinline__ void attention_key_pass(int lane, const AttentionBackwardArgs& args,
                                                   const AttentionItem& item,
                                                   BackwardMemory<float>& memory) {
  using Lane = KeyPassLane<kHead>;
  const int column = column_across<kHead>(lane);
  Lane s{};
  if (item.begin < item.attended) {
    fill_bias(lane, memory.bias, args.shape, item.head, distances_of_keys(item), kLog2E);
    for (int query = 0; query < item.length; query += kTileRows) {
      __syncwarp();
      load_queries_of_keys<kHead>(lane, s, args, item, query, memory.sums);
      load_key_pass<kHead>(s.key, lane, args.shape, item, 1);
      fill_means<kHead>(lane, s, memory.sums, row_of_column);
      // After this barrier they can reuse the registers of `out`.
      load_key_pass<kHead>(s.value, lane, args.shape, item, 2);
      multiply_along<kHead>(s.score, s.key, s.query);
      multiply_along<kHead>(s.grad_p, s.value, s.grad);
      key_pass_weights(item, memory, query, lane, s);
      // After a barrier `across` can reuse the registers of `query` and `grad`; the rows are still
      // in the L1 cache.
      __syncwarp();
      s.across[0] = load_across<kHead>(rows_of_output<kHead>(args.grad, args.shape, item, column),
                                       query, lane);
      multiply_across<kHead>(s.grad_value, s.score, s.across, 0);
      __syncwarp();
      s.across[0] = load_across<kHead>(
          rows_of_part<kHead>(args.shape, item, 0, item.length, column), query, lane);
      multiply_across<kHead>(s.grad_key, s.grad_p, s.across, 0);
    }
  }
  store_key_pass<kHead>(s, lane, args, item);
}

}  // namespace ringlet::cuda
