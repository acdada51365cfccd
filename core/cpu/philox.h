// Philox words in vectors: blocks in adjacent 64-bit lanes, two registers of them interleaved.
// Every instruction set gives the words of philox() in core/base/philox.h.
//
// Blocks of one kernel differ in one or two of their four counters. Most of the first three rounds
// is therefore the same for a whole row and computed once. Each block starts at the fourth round.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <utility>

#include "ringlet/core/base/philox.h"
#include "ringlet/core/cpu/simd.h"

namespace ringlet::cpu::RINGLET_ISA {

// Vectors as wide as a register: compilers split wider compares and selects lane by lane.
constexpr int kRegisters = 64 / kRegisterBytes;  // in a vector of 64 bytes
constexpr int kBlockLanes = kRegisterBytes / 8;  // Philox blocks in a register
typedef std::uint64_t BlockLanes __attribute__((vector_size(kRegisterBytes)));
typedef std::uint32_t WordLanes __attribute__((vector_size(kRegisterBytes)));
typedef std::int32_t SignedLanes __attribute__((vector_size(kRegisterBytes)));

/// The 64-bit products of the lanes' lower halves and b.
RINGLET_INLINE BlockLanes multiply_lower(BlockLanes a, std::uint32_t b) {
#if defined(__AVX512F__)
  return (BlockLanes)_mm512_maskz_mul_epu32(0xff, (__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (BlockLanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(__SSE2__)
  return (BlockLanes)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#else
  return (a & 0xffffffffu) * b;
#endif
}
RINGLET_INLINE std::uint64_t multiply_lower(std::uint64_t a, std::uint32_t b) {
  return (a & 0xffffffffu) * b;
}

/// The keys of all rounds.
struct PhiloxSchedule {
  std::uint64_t key[kPhiloxRounds][2];
};
RINGLET_INLINE PhiloxSchedule schedule(PhiloxKey key) {
  PhiloxSchedule s;
  for (std::uint32_t round = 0; round < kPhiloxRounds; ++round) {
    s.key[round][0] = key.word[0] + round * kPhiloxWeyl0;
    s.key[round][1] = key.word[1] + round * kPhiloxWeyl1;
  }
  return s;
}

/// The counters of a register of blocks between rounds. Only the lower half of a lane is used; the
/// products leave arbitrary bits above it.
struct PhiloxLanes {
  BlockLanes w0, w1, w2, w3;
};

/// The first three rounds of the blocks (a, b, c, block), as far as they do not depend on `block`.
/// A Word holds one c, or one per lane.
template <class Word>
struct PhiloxRow {
  std::uint64_t first;
  Word second, third[3];

  /// The counters after these rounds; `p1` is first_product().
  template <class Product>
  __attribute__((always_inline)) PhiloxLanes rounds(Product p1) const {
    const BlockLanes p0 = multiply_lower((p1 >> 32) ^ second, kPhiloxMultiplier0);
    return {p1 ^ third[0], BlockLanes{} + third[1], (p0 >> 32) ^ third[2], p0};
  }
  template <class Block>
  __attribute__((always_inline)) Block first_product(Block block) const {
    return multiply_lower(block ^ first, kPhiloxMultiplier1);
  }
};
template <class Word>
RINGLET_INLINE PhiloxRow<Word> philox_row(const PhiloxSchedule& keys, std::uint32_t a,
                                          std::uint32_t b, Word c) {
  const auto& key = keys.key;
  const std::uint64_t p0 = multiply_lower(std::uint64_t{a}, kPhiloxMultiplier0);
  const Word p1 = multiply_lower(c, kPhiloxMultiplier1);
  const Word q0 = multiply_lower((p1 >> 32) ^ b ^ key[0][0], kPhiloxMultiplier0);
  const Word q1 = multiply_lower((q0 >> 32) ^ p0 ^ key[1][1], kPhiloxMultiplier1);
  return {(p0 >> 32) ^ key[0][1], p1 ^ key[1][0], {(q1 >> 32) ^ key[2][0], q1, q0 ^ key[2][1]}};
}

/// The rounds from the fourth on, interleaved for two registers: a single one waits for its
/// products.
template <int kRounds = kPhiloxRounds>
RINGLET_INLINE void last_rounds(const PhiloxSchedule& keys, PhiloxLanes lanes[2]) {
#pragma GCC unroll 7
  for (int round = 3; round < kRounds; ++round)
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      PhiloxLanes& x = lanes[k];
      const BlockLanes p0 = multiply_lower(x.w0, kPhiloxMultiplier0);
      const BlockLanes p1 = multiply_lower(x.w2, kPhiloxMultiplier1);
      x = {(p1 >> 32) ^ x.w1 ^ keys.key[round][0], p1, (p0 >> 32) ^ x.w3 ^ keys.key[round][1], p0};
    }
}

// Interleaves the even lanes of a and b, or the odd ones, in pairs.
template <class V, int... kLane>
RINGLET_INLINE V even_lanes(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int kLanes = sizeof...(kLane);
  return __builtin_shufflevector(a, b, (kLane % 2 ? kLanes + kLane - 1 : kLane)...);
}
template <class V, int... kLane>
RINGLET_INLINE V odd_lanes(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int kLanes = sizeof...(kLane);
  return __builtin_shufflevector(a, b, (kLane % 2 ? kLanes + kLane : kLane + 1)...);
}
using BlockSequence = std::make_integer_sequence<int, kBlockLanes>;

/// Interleaves the lower halves of a and b.
RINGLET_INLINE WordLanes join_lower(BlockLanes a, BlockLanes b) {
  return even_lanes((WordLanes)a, (WordLanes)b, std::make_integer_sequence<int, 2 * kBlockLanes>());
}

// ---- random halves of words for sixteen queries of attention, one per lane -------------------

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
