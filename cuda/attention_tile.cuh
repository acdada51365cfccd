// Tiles of 16 rows on tensor cores, loaded from device memory to registers directly. Sums over the
// elements of a head, over keys or over queries may take any order, so each lane takes contiguous
// elements. These are 16 bytes of a row for a product along the row, and 4 consecutive rows for one
// across rows. With g = lane / 4, t = lane % 4 and 16 rows (of queries or keys):
//   along:  a lane has elements 32 p + 8t to + 7 of its row
//   across: a lane has rows 4t to 4t + 3, elements d / 8 g to + d / 8 - 1
// Scores of 16 columns are two products n = 0, 1. Columns 2t and 2t + 1 of product n are columns
// 4t + 2n and 4t + 2n + 1 of the 16. So a lane has four consecutive columns, which share one Philox
// block and have the layout of the product across these 16.
#pragma once

#include "ringlet/core/base/dtype.h"
#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/warp.cuh"

namespace ringlet::cuda {

/// Rows of a head, from a lane's first column on.
struct HeadRows {
  const bfloat16* data;
  int stride;  // bytes from row to row
  int last;

  /// Reads beyond the last row return the last row, so that no read leaves the tensor.
  __device__ __forceinline__ const bfloat16* row(int r) const {
    return address_of(data, r < last ? r : last, stride);
  }
};
/// Rows of q, k or v (part 0, 1 or 2).
template <int kHead>
__device__ __forceinline__ HeadRows rows_of_part(const AttentionShape& shape,
                                                 const AttentionItem& item, int part, int count,
                                                 int column) {
  const int width = static_cast<int>(shape.heads) * kHead;
  const bfloat16* first = static_cast<const bfloat16*>(shape.qkv) + item.query;
  return {address_of(first, part * width + column, 2), 6 * width, count - 1};
}
/// Rows of a (T, heads d) tensor.
template <int kHead>
__device__ __forceinline__ HeadRows rows_of_output(const void* tensor, const AttentionShape& shape,
                                                   const AttentionItem& item, int column) {
  const bfloat16* first = static_cast<const bfloat16*>(tensor) + item.out;
  return {address_of(first, column, 2), static_cast<int>(shape.heads) * (2 * kHead),
          item.length - 1};
}
/// A lane's first column along rows, across rows and where it stores a row.
RINGLET_HOST_DEVICE int column_along(int lane) { return 8 * (lane % 4); }
template <int kHead>
RINGLET_HOST_DEVICE int column_across(int lane) {
  return lane / 4 * (kHead / 8);
}
template <int kHead>
RINGLET_HOST_DEVICE int column_stored(int lane) {
  return lane % 4 * (kHead / 4);
}

template <int kHead>
struct Along {
  std::uint32_t word[kHead / 8];
};
template <int kHead>
struct Across {
  std::uint32_t word[4][kHead / 16];
};

/// The row that column `g` of product n reads.
RINGLET_HOST_DEVICE int row_of_column(int n, int g) {
  return n / 2 * 16 + g / 2 * 4 + n % 2 * 2 + g % 2;
}
/// The column (of 16) of element 2r + e of product n on lane t.
RINGLET_HOST_DEVICE int column_of(int n, int t, int e) { return 4 * t + n % 2 * 2 + e; }

template <int kHead>
__device__ __forceinline__ Along<kHead> load_along(const bfloat16* row) {
  Along<kHead> to;
#pragma unroll
  for (int p = 0; p < kHead / 32; ++p) {
    const Words<4> from = load_words<4>(row + 32 * p);
#pragma unroll
    for (int i = 0; i < 4; ++i) to.word[4 * p + i] = from.word[i];
  }
  return to;
}
template <int kHead>
__device__ __forceinline__ Across<kHead> load_across(const HeadRows& rows, int first, int lane) {
  Across<kHead> to;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const Words<kHead / 16> from = load_words<kHead / 16>(rows.row(first + lane % 4 * 4 + r));
#pragma unroll
    for (int i = 0; i < kHead / 16; ++i) to.word[r][i] = from.word[i];
  }
  return to;
}

/// Rows of queries (or keys) g and g + 8, elements of step `step` (16 elements) of a product along
/// the rows.
template <int kHead>
__device__ __forceinline__ Words<4> a_of_rows(const Along<kHead> (&row)[2], int step) {
  return {{row[0].word[2 * step], row[1].word[2 * step], row[0].word[2 * step + 1],
           row[1].word[2 * step + 1]}};
}
/// Column d / 8 g + j of 16 rows.
template <int kHead>
__device__ __forceinline__ Words<2> b_of_column(const Across<kHead>& x, int j) {
  Words<2> b;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t low = x.word[2 * i][j / 2], high = x.word[2 * i + 1][j / 2];
    b.word[i] = j % 2 ? highs(low, high) : lows(low, high);
  }
  return b;
}
/// Two products of scores as operand a of a product across their 16 columns.
__device__ __forceinline__ Words<4> a_of_scores(const float (&first)[4], const float (&second)[4]) {
  return {{pack_pair(first[0], first[1]), pack_pair(first[2], first[3]),
           pack_pair(second[0], second[1]), pack_pair(second[2], second[3])}};
}

/// to = a b^T along the rows, 8 columns to a product.
template <int kHead, int kProducts>
__device__ __forceinline__ void multiply_along(float (&to)[kProducts][4],
                                               const Along<kHead> (&a)[2],
                                               const Along<kHead> (&b)[kProducts]) {
#pragma unroll
  for (int n = 0; n < kProducts; ++n) {
#pragma unroll
    for (float& c : to[n]) c = 0;
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step)
      multiply(to[n], a_of_rows(a, step), b[n].word[2 * step], b[n].word[2 * step + 1]);
  }
}
/// to += scores x, across the 16 rows of x that belong to products 2 `half` and 2 `half` + 1.
template <int kHead, int kProducts>
__device__ __forceinline__ void multiply_across(float (&to)[kHead / 8][4],
                                                const float (&scores)[kProducts][4],
                                                const Across<kHead> (&x)[kProducts / 2], int half) {
#pragma unroll
  for (int j = 0; j < kHead / 8; ++j) {
    const Words<2> b = b_of_column(x[half], j);
    multiply(to[j], a_of_scores(scores[2 * half], scores[2 * half + 1]), b.word[0], b.word[1]);
  }
}

/// Row 8r + g of sums across, times factor, rounded: a lane has d / 4 contiguous elements from
/// column_stored() on.
template <int kHead>
__device__ __forceinline__ void store_row(bfloat16* to, const float (&sums)[kHead / 8][4], int r,
                                          float factor) {
#pragma unroll
  for (int first = 0; first < kHead / 8; first += 4) {
    Words<4> words;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Element e kHead / 8 + j is sums[j][2r + e].
      const int at = 2 * (first + i), e = at / (kHead / 8), j = at % (kHead / 8);
      words.word[i] = pack_pair(sums[j][2 * r + e] * factor, sums[j + 1][2 * r + e] * factor);
    }
    store_words(to + 2 * first, words);
  }
}

/// The sum over the four lanes of a row, on all of them.
__device__ __forceinline__ float sum_across_row(float x) {
#pragma unroll
  for (int mask = 1; mask < 4; mask *= 2) x += __shfl_xor_sync(kAllLanes, x, mask);
  return x;
}

}  // namespace ringlet::cuda
