// Dropout of a row, for kernels that apply it to their results (core/base/philox.h has the
// counters).
#pragma once

#include "ringlet/core/ops/random.h"

namespace ringlet::cuda {

struct RowPlace {
  std::uint32_t sentence;
  std::uint32_t token;
};
RINGLET_HOST_DEVICE RowPlace place_of(const RowDropout& dropout, std::int64_t row) {
  if (!dropout.positions) return {static_cast<std::uint32_t>(row), 0};
  return {static_cast<std::uint32_t>(dropout.positions[2 * row]),
          static_cast<std::uint32_t>(dropout.positions[2 * row + 1])};
}

/// Bit j: whether column `column` + j is kept; `column` is a multiple of kCount (1, 2 or a multiple
/// of 4).
template <int kCount>
RINGLET_HOST_DEVICE std::uint32_t kept_bits(const DropoutMask& dropout, RowPlace place,
                                            std::int64_t column) {
  static_assert(kCount == 1 || kCount == 2 || (kCount % 4 == 0 && kCount <= 32));
  std::uint32_t bits = 0;
  for (int k = 0; k < kCount; k += 4) {
    const auto block = static_cast<std::uint32_t>((column + k) / 4);
    const PhiloxBlock words = philox({{place.sentence, place.token, 0, block}}, key_of(dropout));
    for (int i = 0; i < 4; ++i) bits |= (words.word[i] >= dropout.threshold ? 1u : 0u) << (k + i);
  }
  if constexpr (kCount < 4) bits = bits >> (column % 4) & ((1u << kCount) - 1);
  return bits;
}

/// The bits of kRuns runs of kCount columns; the runs begin `apart` from each other. Sequentially:
/// several Philox blocks in parallel would take the registers that the columns need.
template <int kRuns, int kCount>
RINGLET_HOST_DEVICE std::uint32_t kept_runs(const RowDropout& dropout, std::int64_t row,
                                            std::int64_t column, std::int64_t apart) {
  static_assert(kRuns * kCount <= 32);
  const RowPlace place = place_of(dropout, row);
  std::uint32_t bits = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 2
#endif
  for (int k = 0; k < kRuns; ++k)
    bits |= kept_bits<kCount>(dropout, place, column + k * apart) << k * kCount;
  return bits;
}

/// The same for kRows rows in one run of columns.
template <int kRows, int kCount>
RINGLET_HOST_DEVICE std::uint32_t kept_rows(const RowDropout& dropout, std::int64_t row,
                                            std::int64_t rows, std::int64_t column) {
  static_assert(kRows * kCount <= 32);
  std::uint32_t bits = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 2
#endif
  for (int r = 0; r < kRows; ++r)
    if (row + r < rows)
      bits |= kept_bits<kCount>(dropout, place_of(dropout, row + r), column) << r * kCount;
  return bits;
}

/// x / (1 - p) where its bit is set, else +0, for every x.
template <class S, int kCount>
RINGLET_HOST_DEVICE void drop(S (&x)[kCount], std::uint32_t kept, const DropoutMask& dropout) {
  const S scale = static_cast<S>(dropout.scale);
  for (int i = 0; i < kCount; ++i) x[i] = (kept >> i & 1u) ? x[i] * scale : S{0};
}

}  // namespace ringlet::cuda
