// Dropout within kernels: the random words of a row, and their use as a mask.
#pragma once

#include "ringlet/core/cpu/philox.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::cpu::RINGLET_ISA {

// Philox words of one row, for kernels that draw a row of activations at a time.

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

/// The number of words that draw_row() writes.
RINGLET_INLINE std::int64_t row_words(std::int64_t columns) {
  return (columns + kPhiloxRun - 1) / kPhiloxRun * kPhiloxRun;
}

/// Draws the words of a row of activations: row_words(columns) words.
RINGLET_INLINE void draw_row(std::uint32_t* words, const RowDropout& dropout,
                             const PhiloxSchedule& keys, std::int64_t row, std::int64_t columns) {
  const std::int32_t* at = dropout.positions ? dropout.positions + 2 * row : nullptr;
  const auto sentence = static_cast<std::uint32_t>(at ? at[0] : row);
  const auto token = static_cast<std::uint32_t>(at ? at[1] : 0);
  philox_words(keys, philox_row(keys, sentence, token, std::uint64_t{0}), columns, words);
}

/// x / (1 - p) in the lanes that are kept; +0 in the others, for any x.
RINGLET_INLINE f32x16 drop(f32x16 x, u32x16 words, const DropoutMask& dropout) {
  const std::uint32_t threshold = dropout.threshold;
  const auto scale = static_cast<float>(dropout.scale);
#if defined(__AVX512F__)
  return words >= threshold ? x * scale : f32x16{};
#else
  f32x16 scaled = x * scale;
  for (int part = 0; part < kRegisters; ++part) {
    WordLanes bits, word;
    char* at = reinterpret_cast<char*>(&scaled) + part * kRegisterBytes;
    memcpy(&bits, at, sizeof(bits));
    memcpy(&word, reinterpret_cast<const char*>(&words) + part * kRegisterBytes, sizeof(word));
    // With the top bit flipped, unsigned words compare as signed ones, which any processor
    // supports.
    bits &= (WordLanes)((SignedLanes)(word ^ 0x80000000u) >=
                        (SignedLanes)(WordLanes{} + (threshold ^ 0x80000000u)));
    memcpy(at, &bits, sizeof(bits));
  }
  return scaled;
#endif
}
RINGLET_INLINE f64x8 drop(f64x8 x, u32x16 words, const DropoutMask& dropout) {
  for (int k = 0; k < 8; ++k) x[k] = words[k] >= dropout.threshold ? x[k] * dropout.scale : 0;
  return x;
}
RINGLET_INLINE f32x16 drop(f32x16 x, const std::uint32_t* words, const DropoutMask& dropout) {
  u32x16 word;  // copied as a whole: else the compiler moves it lane by lane
  memcpy(&word, words, sizeof(word));
  return drop(x, word, dropout);
}
RINGLET_INLINE f64x8 drop(f64x8 x, const std::uint32_t* words, const DropoutMask& dropout) {
  u32x16 word{};
  memcpy(&word, words, 8 * sizeof(*words));
  return drop(x, word, dropout);
}

}  // namespace ringlet::cpu::RINGLET_ISA
