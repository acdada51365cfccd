// Philox words by the vector: 32 columns of a row at a time, eight blocks side by side in 64-bit
// lanes. Every instruction set gives the words of philox() in core/random.h.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/random.h"

namespace ringlet::cpu::RINGLET_ISA {

// Registers as wide as the processor's: compilers take 64-byte compares and selects apart lane by
// lane where registers are narrower.
#if defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif
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

// Lanes low, high, low, high … of a and b: the lower half of the pairs, and the upper half.
RINGLET_INLINE void interleave(BlockLanes a, BlockLanes b, BlockLanes pairs[2]) {
#if defined(__AVX512F__)
  pairs[0] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  pairs[1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(__AVX2__)
  pairs[0] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  pairs[1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#else
  pairs[0] = __builtin_shufflevector(a, b, 0, 2);
  pairs[1] = __builtin_shufflevector(a, b, 1, 3);
#endif
}

/// words[0] and words[1] are columns [32 i, 32 i + 16) and [32 i + 16, 32 i + 32) of the row of
/// counters (a, b, c, column / 4), i.e. the blocks 8 i … 8 i + 7.
RINGLET_INLINE void philox32(const PhiloxSchedule& keys, std::uint32_t a, std::uint32_t b,
                             std::uint32_t c, std::uint32_t i, u32x16 words[2]) {
  BlockLanes lane;
  for (int k = 0; k < kBlockLanes; ++k) lane[k] = static_cast<std::uint64_t>(k);
  for (int part = 0; part < kRegisters; ++part) {
    // Only the lower half of a lane counts; what the products leave above is never read.
    BlockLanes w0 = BlockLanes{} + a, w1 = BlockLanes{} + b, w2 = BlockLanes{} + c;
    BlockLanes w3 = lane + (std::uint64_t{8} * i + static_cast<std::uint64_t>(part * kBlockLanes));
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const BlockLanes p0 = multiply_lower(w0, kPhiloxMultiplier0);
      const BlockLanes p1 = multiply_lower(w2, kPhiloxMultiplier1);
      w0 = (p1 >> 32) ^ w1 ^ keys.key[round][0];
      w1 = p1;
      w2 = (p0 >> 32) ^ w3 ^ keys.key[round][1];
      w3 = p0;
    }
    BlockLanes pairs[2];
    interleave((w0 & 0xffffffffu) | (w1 << 32), (w2 & 0xffffffffu) | (w3 << 32), pairs);
    memcpy(reinterpret_cast<char*>(words) + 2 * part * kRegisterBytes, pairs, sizeof(pairs));
  }
}

/// x / (1 - p) where the word says so, 0 elsewhere.
RINGLET_INLINE f32x16 drop(f32x16 x, u32x16 words, std::uint32_t threshold, float scale) {
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
}

}  // namespace ringlet::cpu::RINGLET_ISA
