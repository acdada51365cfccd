// Philox words of one row, for kernels that draw a row of activations at a time.
#pragma once

#include "ringlet/core/cpu/philox.h"

namespace ringlet::cpu::RINGLET_ISA {

/// The counters (a, b, c, column / 4) of a row. Its blocks differ only in the last counter, which
/// is combined with the first three in the third round.
struct PhiloxRow {
  std::uint64_t first, second, third[3];
};
RINGLET_INLINE PhiloxRow philox_row(const PhiloxSchedule& keys, std::uint32_t a, std::uint32_t b,
                                    std::uint32_t c) {
  const auto& key = keys.key;
  const std::uint64_t p0 = multiply_lower(std::uint64_t{a}, kPhiloxMultiplier0);
  const std::uint64_t p1 = multiply_lower(std::uint64_t{c}, kPhiloxMultiplier1);
  const std::uint64_t q0 = multiply_lower((p1 >> 32) ^ b ^ key[0][0], kPhiloxMultiplier0);
  const std::uint64_t q1 = multiply_lower((q0 >> 32) ^ p0 ^ key[1][1], kPhiloxMultiplier1);
  return {(p0 >> 32) ^ key[0][1], p1 ^ key[1][0], {(q1 >> 32) ^ key[2][0], q1, q0 ^ key[2][1]}};
}

// The first three rounds of the blocks from `block` on.
RINGLET_INLINE PhiloxLanes first_rounds(const PhiloxRow& row, std::uint64_t block) {
  BlockLanes at{};  // in the order that storing the words needs
  for (int k = 0; k < kBlockLanes; ++k)
    at[k] = static_cast<std::uint64_t>(k % 2 * (kBlockLanes / 2) + k / 2);
  const BlockLanes p1 = multiply_lower((at + block) ^ row.first, kPhiloxMultiplier1);
  const BlockLanes p0 = multiply_lower((p1 >> 32) ^ row.second, kPhiloxMultiplier0);
  return {p1 ^ row.third[0], BlockLanes{} + row.third[1], (p0 >> 32) ^ row.third[2], p0};
}

/// to[i] is the word of column i; `columns` is rounded up to whole runs of kPhiloxRun.
inline constexpr std::int64_t kPhiloxRun = 64;
RINGLET_INLINE void philox_words(const PhiloxSchedule& keys, const PhiloxRow& row,
                                 std::int64_t columns, std::uint32_t* to) {
  constexpr int kRegisterWords = 4 * kBlockLanes;
  for (std::int64_t i = 0; i < columns; i += kPhiloxRun)
#pragma GCC unroll 2
    for (std::int64_t k = i; k < i + kPhiloxRun; k += 2 * kRegisterWords) {
      const auto block = static_cast<std::uint64_t>(k) / 4;
      PhiloxLanes lanes[2] = {first_rounds(row, block), first_rounds(row, block + kBlockLanes)};
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
