// Products of matrices that fit the first cache levels, for kernels that compute one at a time.
// Every element is one chain of multiply-adds over k in order: its bits depend neither on its
// position nor on the sizes.
#pragma once

#include "ringlet/core/cpu/lanes.h"

namespace ringlet::cpu::RINGLET_ISA {

// A tile of (rows, vectors) sums stays in registers; more than twelve rows are no faster.
#if defined(__AVX512F__)
inline constexpr int kTileSums = 24, kTileVectors = 2;
#elif defined(__AVX2__)
inline constexpr int kTileSums = 6, kTileVectors = 1;
#else
inline constexpr int kTileSums = 2, kTileVectors = 1;
#endif
template <int kVectors>
inline constexpr int kTileRows = kTileSums / kVectors < 12 ? kTileSums / kVectors : 12;

/// A(r, k) = data[r * row + k * column]: a matrix or its transpose.
template <class S>
struct SmallMatrix {
  const S* data;
  std::int64_t row;
  std::int64_t column;
};

template <int kRows, int kVectors, class S>
RINGLET_INLINE void matmul_tile(S* c, std::int64_t ldc, SmallMatrix<S> a, const S* b,
                                std::int64_t ldb, std::int64_t inner, bool accumulate) {
  constexpr int kLanes = Compute<S>::kLanes;
  vector_t<S> total[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      total[r][v] = accumulate ? load(c + r * ldc + v * kLanes) : vector_t<S>{};
  // One pointer for four rows, so that all pointers fit in registers.
  constexpr int kGroups = (kRows + 3) / 4;
  const S* group[kGroups];
  for (int g = 0; g < kGroups; ++g) group[g] = a.data + 4 * g * a.row;
  for (std::int64_t k = 0; k < inner; ++k, b += ldb) {
    vector_t<S> row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const vector_t<S> factor = splat(group[r / 4][r % 4 * a.row]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) total[r][v] = fma(factor, row[v], total[r][v]);
    }
#pragma GCC unroll 3
    for (int g = 0; g < kGroups; ++g) group[g] += a.column;
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(c + r * ldc + v * kLanes, total[r][v]);
}

template <int kRows, int kVectors, class S>
RINGLET_INLINE void matmul_rows(S* c, std::int64_t ldc, SmallMatrix<S> a, const S* b,
                                std::int64_t ldb, std::int64_t rows, std::int64_t inner,
                                bool accumulate) {
  if (rows == kRows) {
    matmul_tile<kRows, kVectors>(c, ldc, a, b, ldb, inner, accumulate);
  } else if constexpr (kRows > 1) {
    matmul_rows<kRows - 1, kVectors>(c, ldc, a, b, ldb, rows, inner, accumulate);
  }
}

// Divides the rows into tiles of nearly equal height: a low tile waits for its own sums.
template <int kVectors, class S>
RINGLET_INLINE void matmul_columns(S* c, std::int64_t ldc, SmallMatrix<S> a, const S* b,
                                   std::int64_t ldb, std::int64_t rows, std::int64_t inner,
                                   bool accumulate) {
  constexpr int kMost = kTileRows<kVectors>;
  for (std::int64_t tiles = (rows + kMost - 1) / kMost; tiles > 0; --tiles) {
    const std::int64_t height = rows / tiles;
    matmul_rows<kMost, kVectors>(c, ldc, a, b, ldb, height, inner, accumulate);
    c += height * ldc;
    a.data += height * a.row;
    rows -= height;
  }
}

/// C (rows, columns) = A B, or C + A B. `columns` is a multiple of the lanes of a vector.
template <class S>
static void small_matmul(S* c, std::int64_t ldc, SmallMatrix<S> a, const S* b, std::int64_t ldb,
                         std::int64_t rows, std::int64_t columns, std::int64_t inner,
                         bool accumulate = false) {
  constexpr std::int64_t kWidth = kTileVectors * Compute<S>::kLanes;
  for (; columns >= kWidth; columns -= kWidth, c += kWidth, b += kWidth)
    matmul_columns<kTileVectors>(c, ldc, a, b, ldb, rows, inner, accumulate);
  if constexpr (kTileVectors > 1)
    if (columns > 0) matmul_columns<1>(c, ldc, a, b, ldb, rows, inner, accumulate);
}

/// to (columns, ldt) = factor * the transpose of from (rows, columns); rows of `to` are padded with
/// zeros to whole vectors.
template <class T, class S = scalar_t<T>>
static inline void transpose(S* to, std::int64_t ldt, const T* from, std::int64_t ldf,
                             std::int64_t rows, std::int64_t columns, S factor) {
  constexpr int kLanes = Compute<T>::kLanes;
  for (std::int64_t r = 0; r < rows; r += kLanes)
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      const std::int64_t height = rows - r < kLanes ? rows - r : kLanes;
      const std::int64_t width = columns - c < kLanes ? columns - c : kLanes;
      vector_t<T> block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i)
        block[i] = i < height ? load_at(from + (r + i) * ldf, c, width) * factor : vector_t<T>{};
#if defined(__AVX512F__)
      if constexpr (kLanes == 16) {
        transpose_lanes<16>(block);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i)
          if (i < width) store(to + (c + i) * ldt + r, block[i]);
        continue;
      }
#endif
      for (std::int64_t i = 0; i < width; ++i)
        for (int j = 0; j < kLanes; ++j) to[(c + i) * ldt + r + j] = block[j][i];
    }
}

}  // namespace ringlet::cpu::RINGLET_ISA
