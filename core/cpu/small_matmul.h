// Products of matrices that fit the first cache levels, for kernels that work on one of them at a
// time. Every element is one chain of multiply-adds over k in order, so its bits depend neither on
// its place nor on the sizes.
#pragma once

#include <utility>

#include "ringlet/core/cpu/simd.h"

namespace ringlet::cpu::RINGLET_ISA {

// A tile of rows x vectors of results lives in registers.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 6, kTileVectors = 4;
#elif defined(__AVX2__)
inline constexpr int kTileRows = 2, kTileVectors = 2;
#else
inline constexpr int kTileRows = 2, kTileVectors = 1;
#endif

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
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      total[r][v] = accumulate ? load(c + r * ldc + v * kLanes) : vector_t<S>{};
  for (std::int64_t k = 0; k < inner; ++k) {
    vector_t<S> row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + k * ldb + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const vector_t<S> factor = splat(a.data[r * a.row + k * a.column]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) total[r][v] = fma(factor, row[v], total[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(c + r * ldc + v * kLanes, total[r][v]);
}

template <int kRows, int kVectors, class S>
RINGLET_INLINE void matmul_rows(S* c, std::int64_t ldc, SmallMatrix<S> a, const S* b,
                                std::int64_t ldb, std::int64_t rows, std::int64_t inner,
                                bool accumulate) {
  for (; rows >= kRows; rows -= kRows) {
    matmul_tile<kRows, kVectors>(c, ldc, a, b, ldb, inner, accumulate);
    c += kRows * ldc;
    a.data += kRows * a.row;
  }
  if constexpr (kRows > 1)
    if (rows > 0) matmul_rows<kRows - 1, kVectors>(c, ldc, a, b, ldb, rows, inner, accumulate);
}

template <int kVectors, class S>
RINGLET_INLINE void matmul_columns(S* c, std::int64_t ldc, SmallMatrix<S> a, const S* b,
                                   std::int64_t ldb, std::int64_t rows, std::int64_t columns,
                                   std::int64_t inner, bool accumulate) {
  constexpr std::int64_t kWidth = kVectors * Compute<S>::kLanes;
  for (; columns >= kWidth; columns -= kWidth) {
    matmul_rows<kTileRows, kVectors>(c, ldc, a, b, ldb, rows, inner, accumulate);
    c += kWidth;
    b += kWidth;
  }
  if constexpr (kVectors > 1)
    if (columns > 0)
      matmul_columns<kVectors / 2>(c, ldc, a, b, ldb, rows, columns, inner, accumulate);
}

/// C (rows, columns) = A B, or C + A B. `columns` is a multiple of the lanes of a vector.
template <class S>
static inline void small_matmul(S* c, std::int64_t ldc, SmallMatrix<S> a, const S* b,
                                std::int64_t ldb, std::int64_t rows, std::int64_t columns,
                                std::int64_t inner, bool accumulate = false) {
  matmul_columns<kTileVectors>(c, ldc, a, b, ldb, rows, columns, inner, accumulate);
}

// Swaps blocks of kStep x kStep off the diagonal between rows a and b, kStep apart.
template <int kStep, int... kLane>
RINGLET_INLINE void swap_blocks(f32x16& a, f32x16& b, std::integer_sequence<int, kLane...>) {
  const f32x16 low =
      __builtin_shufflevector(a, b, ((kLane & kStep) ? 16 + kLane - kStep : kLane)...);
  const f32x16 high =
      __builtin_shufflevector(a, b, ((kLane & kStep) ? 16 + kLane : kLane + kStep)...);
  a = low;
  b = high;
}
template <int kStep>
RINGLET_INLINE void swap_all_blocks(f32x16* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    if (!(i & kStep))
      swap_blocks<kStep>(rows[i], rows[i + kStep], std::make_integer_sequence<int, 16>());
}

/// to (columns, ldt) = the transpose of from (rows, columns); rows of `to` are padded with zeros
/// to whole vectors.
template <class T, class S = scalar_t<T>>
static inline void transpose(S* to, std::int64_t ldt, const T* from, std::int64_t ldf,
                             std::int64_t rows, std::int64_t columns) {
  constexpr int kLanes = Compute<T>::kLanes;
  for (std::int64_t r = 0; r < rows; r += kLanes)
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      const std::int64_t height = rows - r < kLanes ? rows - r : kLanes;
      const std::int64_t width = columns - c < kLanes ? columns - c : kLanes;
      vector_t<T> block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i)
        block[i] = i < height ? load_at(from + (r + i) * ldf, c, width) : vector_t<T>{};
#if defined(__AVX512F__)
      if constexpr (kLanes == 16) {
        swap_all_blocks<8>(block);
        swap_all_blocks<4>(block);
        swap_all_blocks<2>(block);
        swap_all_blocks<1>(block);
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
