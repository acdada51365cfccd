// Random halves of words for sixteen queries of attention, one per lane (core/base/philox.h).
#pragma once

#include "ringlet/core/cpu/philox.h"

namespace ringlet::cpu::RINGLET_ISA {

/// The counters of sixteen queries, two to a block: (a, b, c + row, key / 4) of eight rows.
struct PhiloxRows {
  static constexpr int kParts = 8 / kBlockLanes;
  PhiloxRow<BlockLanes> part[kParts];
};
RINGLET_INLINE PhiloxRows philox_rows(const PhiloxSchedule& keys, std::uint32_t a, std::uint32_t b,
                                      std::uint32_t c) {
  PhiloxRows rows;
  for (int part = 0; part < PhiloxRows::kParts; ++part) {
    BlockLanes row{};
    for (int k = 0; k < kBlockLanes; ++k)
      row[k] = std::uint64_t{c} + static_cast<std::uint64_t>(part * kBlockLanes + k);
    rows.part[part] = philox_row(keys, a, b, row);
  }
  return rows;
}

// The lower halves of a's lanes, then of b's.
template <int... kLane>
RINGLET_INLINE WordLanes lower_words(WordLanes a, WordLanes b,
                                     std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (2 * kLane)...);
}
/// The same words of eight rows as those of queries: the upper half of each lane counts.
RINGLET_INLINE u32x16 words_of_queries(const BlockLanes (&rows)[PhiloxRows::kParts]) {
  constexpr auto kSequence = std::make_integer_sequence<int, 2 * kBlockLanes>();
  WordLanes queries[kRegisters];
  if constexpr (kRegisters == 1)
    queries[0] = lower_words((WordLanes)(rows[0] << 16), (WordLanes)rows[0], kSequence);
  else
    for (int r = 0; r < kRegisters / 2; ++r) {
      const WordLanes upper =
          lower_words((WordLanes)rows[2 * r], (WordLanes)rows[2 * r + 1], kSequence);
      queries[r] = upper << 16;
      queries[kRegisters / 2 + r] = upper;
    }
  u32x16 words;
  memcpy(&words, queries, sizeof(words));
  return words;
}

/// words[k] is key 4 block + k of the sixteen queries, for eight keys.
RINGLET_INLINE void weight_words(const PhiloxSchedule& keys, const PhiloxRows& rows,
                                 std::uint64_t block, u32x16 words[8]) {
  BlockLanes drawn[8][PhiloxRows::kParts];
#pragma GCC unroll 4
  for (int part = 0; part < PhiloxRows::kParts; ++part) {
    const PhiloxRow<BlockLanes>& row = rows.part[part];
    PhiloxLanes lanes[2] = {row.rounds(row.first_product(block)),
                            row.rounds(row.first_product(block + 1))};
    last_rounds<kWeightRounds>(keys, lanes);
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      drawn[4 * k][part] = lanes[k].w0, drawn[4 * k + 1][part] = lanes[k].w1;
      drawn[4 * k + 2][part] = lanes[k].w2, drawn[4 * k + 3][part] = lanes[k].w3;
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) words[k] = words_of_queries(drawn[k]);
}

}  // namespace ringlet::cpu::RINGLET_ISA
