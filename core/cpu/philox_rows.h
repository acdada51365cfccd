// Philox words of sixteen rows, one per lane: the layout of queries in attention.
#pragma once

#include "ringlet/core/cpu/philox.h"

namespace ringlet::cpu::RINGLET_ISA {

/// The counters (a, b, c + lane, column / 4) of sixteen rows, one row per lane.
struct PhiloxRows {
  PhiloxRow<BlockLanes> part[16 / kBlockLanes];  // even rows of a vector's part, then its odd ones
};
RINGLET_INLINE PhiloxRows philox_rows(const PhiloxSchedule& keys, std::uint32_t a, std::uint32_t b,
                                      std::uint32_t c) {
  PhiloxRows rows;
  for (int r = 0; r < 16 / kBlockLanes; ++r) {
    BlockLanes row{};
    for (int k = 0; k < kBlockLanes; ++k)
      row[k] =
          std::uint64_t{c} + static_cast<std::uint64_t>(r / 2 * 2 * kBlockLanes + 2 * k + r % 2);
    rows.part[r] = philox_row(keys, a, b, row);
  }
  return rows;
}

/// words[k] is column 4 block + k of the sixteen rows.
RINGLET_INLINE void philox_words(const PhiloxSchedule& keys, const PhiloxRows& rows,
                                 std::uint64_t block, u32x16 words[4]) {
  const std::uint64_t p1 = rows.part[0].first_product(block);
  for (int part = 0; part < kRegisters; ++part) {
    PhiloxLanes lanes[2] = {rows.part[2 * part].rounds(p1), rows.part[2 * part + 1].rounds(p1)};
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
