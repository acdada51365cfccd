// Philox words by the vector: blocks side by side in 64-bit lanes, two registers of them in flight.
// Every instruction set gives the words of philox() in core/random.h.
//
// Blocks of one kernel differ in one or two of their four counters, so most of the first three
// rounds is the same for a whole row: it is computed once, and a block begins at the fourth.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <utility>

#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/random.h"

namespace ringlet::cpu::RINGLET_ISA {

// In parts as wide as registers: compilers take 64-byte compares and selects apart lane by lane
// where registers are narrower.
constexpr int kRegisters = 64 / kRegisterBytes;  // in a vector of 64 bytes
constexpr int kBlockLanes = kRegisterBytes / 8;  // Philox blocks side by side
typedef std::uint64_t BlockLanes __attribute__((vector_size(kRegisterBytes)));
typedef std::uint32_t WordLanes __attribute__((vector_size(kRegisterBytes)));
typedef std::int32_t SignedLanes __attribute__((vector_size(kRegisterBytes)));

/// The 64-bit products of the lanes' lower halves with b.
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

/// The counters of a register of blocks on their way to words. Only the lower half of a lane
/// counts; what the products leave above is never read.
struct PhiloxLanes {
  BlockLanes w0, w1, w2, w3;
};

/// The rounds from the fourth on, of two registers at once: one alone would wait for its products.
RINGLET_INLINE void last_rounds(const PhiloxSchedule& keys, PhiloxLanes lanes[2]) {
#pragma GCC unroll 7
  for (int round = 3; round < kPhiloxRounds; ++round)
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      PhiloxLanes& x = lanes[k];
      const BlockLanes p0 = multiply_lower(x.w0, kPhiloxMultiplier0);
      const BlockLanes p1 = multiply_lower(x.w2, kPhiloxMultiplier1);
      x = {(p1 >> 32) ^ x.w1 ^ keys.key[round][0], p1, (p0 >> 32) ^ x.w3 ^ keys.key[round][1], p0};
    }
}

// Pairs of lanes: the even ones of a and b in turn, and the odd ones.
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

/// The lower halves of a and b in turn.
RINGLET_INLINE WordLanes join_lower(BlockLanes a, BlockLanes b) {
  return even_lanes((WordLanes)a, (WordLanes)b, std::make_integer_sequence<int, 2 * kBlockLanes>());
}

// ---- a row of columns ---------------------------------------------------------------------

/// The counters (a, b, c, column / 4) of a row: its blocks differ in the last one alone, which
/// meets the others in the third round.
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

// The first three rounds of the blocks that begin at `block`.
RINGLET_INLINE PhiloxLanes first_rounds(const PhiloxRow& row, std::uint64_t block) {
  BlockLanes at{};  // as storing the words wants them
  for (int k = 0; k < kBlockLanes; ++k)
    at[k] = static_cast<std::uint64_t>(k % 2 * (kBlockLanes / 2) + k / 2);
  const BlockLanes p1 = multiply_lower((at + block) ^ row.first, kPhiloxMultiplier1);
  const BlockLanes p0 = multiply_lower((p1 >> 32) ^ row.second, kPhiloxMultiplier0);
  return {p1 ^ row.third[0], BlockLanes{} + row.third[1], (p0 >> 32) ^ row.third[2], p0};
}

/// to[i] is the word of column i, for columns in whole runs of kPhiloxRun.
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

// ---- rows side by side --------------------------------------------------------------------

/// The counters (a, b, c + lane, column / 4) of sixteen rows, a row to a lane.
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

/// words[k] are column 4 block + k of the sixteen rows.
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

// ---- what dropout keeps -------------------------------------------------------------------

/// x scale where the word is at least the threshold, +0 elsewhere, whatever x is.
RINGLET_INLINE f32x16 drop(f32x16 x, u32x16 words, std::uint32_t threshold, float scale) {
#if defined(__AVX512F__)
  return words >= threshold ? x * scale : f32x16{};
#else
  f32x16 scaled = x * scale;
  for (int part = 0; part < kRegisters; ++part) {
    WordLanes bits, word;
    char* at = reinterpret_cast<char*>(&scaled) + part * kRegisterBytes;
    memcpy(&bits, at, sizeof(bits));
    memcpy(&word, reinterpret_cast<const char*>(&words) + part * kRegisterBytes, sizeof(word));
    // Flipping the top bit orders unsigned words as signed ones, which every processor compares.
    bits &= (WordLanes)((SignedLanes)(word ^ 0x80000000u) >=
                        (SignedLanes)(WordLanes{} + (threshold ^ 0x80000000u)));
    memcpy(at, &bits, sizeof(bits));
  }
  return scaled;
#endif
}

}  // namespace ringlet::cpu::RINGLET_ISA
