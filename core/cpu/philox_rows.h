// Philox words of sixteen rows, one per lane: the layout of queries in attention.
#pragma once

#include "ringlet/core/cpu/philox.h"

namespace ringlet::cpu::RINGLET_ISA {

/// The counters (a, b, c + lane, column / 4) of sixteen rows, one row per lane.
struct PhiloxRows {
  std::uint64_t first;                     // of all rows
  BlockLanes by_row[16 / kBlockLanes][4];  // even rows of a vector's part, then its odd ones
};
RINGLET_INLINE PhiloxRows philox_rows(const PhiloxSchedule& keys, std::uint32_t a, std::uint32_t b,
                                      std::uint32_t c) {
  const auto& key = keys.key;
  const std::uint64_t p0 = multiply_lower(std::uint64_t{a}, kPhiloxMultiplier0);
  PhiloxRows rows;
  rows.first = (p0 >> 32) ^ key[0][1];
  for (int r = 0; r < 16 / kBlockLanes; ++r) {
    BlockLanes row{};
    for (int k = 0; k < kBlockLanes; ++k)
      row[k] =
          std::uint64_t{c} + static_cast<std::uint64_t>(r / 2 * 2 * kBlockLanes + 2 * k + r % 2);
    const BlockLanes p1 = multiply_lower(row, kPhiloxMultiplier1);
    const BlockLanes q0 = multiply_lower((p1 >> 32) ^ b ^ key[0][0], kPhiloxMultiplier0);
    const BlockLanes q1 = multiply_lower((q0 >> 32) ^ p0 ^ key[1][1], kPhiloxMultiplier1);
    rows.by_row[r][0] = p1 ^ key[1][0];
    rows.by_row[r][1] = (q1 >> 32) ^ key[2][0];
    rows.by_row[r][2] = q1;
    rows.by_row[r][3] = q0 ^ key[2][1];
  }
  return rows;
}

/// words[k] is column 4 block + k of the sixteen rows.
RINGLET_INLINE void philox_words(const PhiloxSchedule& keys, const PhiloxRows& rows,
                                 std::uint32_t block, u32x16 words[4]) {
  const std::uint64_t p1 = multiply_lower(block ^ rows.first, kPhiloxMultiplier1);
  for (int part = 0; part < kRegisters; ++part) {
    PhiloxLanes lanes[2];
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const BlockLanes* row = rows.by_row[2 * part + k];
      const BlockLanes p0 = multiply_lower(row[0] ^ (p1 >> 32), kPhiloxMultiplier0);
      lanes[k] = {row[1] ^ p1, row[2], (p0 >> 32) ^ row[3], p0};
    }
    last_rounds(keys, lanes);
    const WordLanes joined[4] = {
        join_lower(lanes[0].w0, lanes[1].w0), join_lower(lanes[0].w1, lanes[1].w1),
        join_lower(lanes[0].w2, lanes[1].w2), join_lower(lanes[0].w3, lanes[1].w3)};
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k)
      memcpy(reinterpret_cast<char*>(words + k) + part * kRegisterBytes, &joined[k],
             kRegisterBytes);
  }
}

}  // namespace ringlet::cpu::RINGLET_ISA
