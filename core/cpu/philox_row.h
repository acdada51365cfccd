// Philox words of one row, for kernels that draw a row of activations at a time.
#pragma once

#include "ringlet/core/cpu/philox.h"

namespace ringlet::cpu::RINGLET_ISA {

/// Blocks (.., column / 4): to[i] is the word of column i; `columns` is rounded up to whole runs of
/// kPhiloxRun.
inline constexpr std::int64_t kPhiloxRun = 64;
RINGLET_INLINE void philox_words(const PhiloxSchedule& keys, const PhiloxRow<std::uint64_t>& row,
                                 std::int64_t columns, std::uint32_t* to) {
  constexpr int kRegisterWords = 4 * kBlockLanes;
  BlockLanes at{};  // in the order that storing the words needs
  for (int k = 0; k < kBlockLanes; ++k)
    at[k] = static_cast<std::uint64_t>(k % 2 * (kBlockLanes / 2) + k / 2);
  for (std::int64_t i = 0; i < columns; i += kPhiloxRun)
#pragma GCC unroll 2
    for (std::int64_t k = i; k < i + kPhiloxRun; k += 2 * kRegisterWords) {
      const BlockLanes block = at + static_cast<std::uint64_t>(k) / 4;
      PhiloxLanes lanes[2] = {row.rounds(row.first_product(block)),
                              row.rounds(row.first_product(block + kBlockLanes))};
      last_rounds(keys, lanes);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        const BlockLanes a = (BlockLanes)join_lower(lanes[r].w0, lanes[r].w1);
        const BlockLanes b = (BlockLanes)join_lower(lanes[r].w2, lanes[r].w3);
        const BlockLanes pairs[2] = {even_lanes(a, b, BlockSequence()),
                                     odd_lanes(a, b, BlockSequence())};
        memcpy(to + k + r * kRegisterWords, pairs, sizeof(pairs));
      }
    }
}

}  // namespace ringlet::cpu::RINGLET_ISA
