// Counter-based randomness: a word depends only on a key and a position, never on the order of
// calls. Masks are therefore the same on CPU and CUDA, packed or padded, on one rank or many.
// Philox4x32: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet {

struct PhiloxKey {
  std::uint32_t word[2];
};
struct PhiloxBlock {
  std::uint32_t word[4];
};

inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
inline constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;
/// Attention weights outnumber all other draws. Seven rounds are the fewest that pass BigCrush in
/// the paper.
inline constexpr int kWeightRounds = 7;

/// The halves of a product.
struct PhiloxProduct {
  std::uint32_t low, high;
};
RINGLET_HOST_DEVICE PhiloxProduct philox_product(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = std::uint64_t{a} * b;
#if defined(__CUDA_ARCH__)
  // Its registers: nvcc would shift and convert.
  PhiloxProduct halves;
  asm("mov.b64 {%0, %1}, %2;" : "=r"(halves.low), "=r"(halves.high) : "l"(product));
  return halves;
#else
  return {static_cast<std::uint32_t>(product), static_cast<std::uint32_t>(product >> 32)};
#endif
}

template <int kRounds = kPhiloxRounds>
RINGLET_HOST_DEVICE PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < kRounds; ++round) {
    const PhiloxProduct p0 = philox_product(kPhiloxMultiplier0, counter.word[0]);
    const PhiloxProduct p1 = philox_product(kPhiloxMultiplier1, counter.word[2]);
    counter = {{p1.high ^ counter.word[1] ^ key.word[0], p1.low,
                p0.high ^ counter.word[3] ^ key.word[1], p0.low}};
    key.word[0] += kPhiloxWeyl0;
    key.word[1] += kPhiloxWeyl1;
  }
  return counter;
}

/// Independent streams of one seed; `tensor` is for uniform() and normal().
enum class RandomUse : std::uint32_t { dropout, tensor };

/// The 64-bit key of a site (one place in the code that draws) at a step: words 0 and 1 of a Philox
/// block. The block's key is the seed (low half, high half), its counter (step low, step high,
/// site, use).
RINGLET_HOST_DEVICE PhiloxKey derive_key(std::uint64_t seed, std::uint64_t step, std::uint32_t site,
                                         RandomUse use = RandomUse::dropout) {
  const PhiloxBlock block =
      philox({{static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), site,
               static_cast<std::uint32_t>(use)}},
             {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
  return {{block.word[0], block.word[1]}};
}

/// The mask of a dropout, from blocks under derive_key(seed, step, site):
///   rows of activations: word column % 4 at (sentence id, token index, 0, column / 4)
///   attention weights: a half of word key % 4 at (sentence id, head, query / 16 * 8 + query % 8,
///     key / 4), with kWeightRounds; the lower half if query % 16 < 8, else the upper one
/// where sentence id = row in the global batch x 2 + column. A row's element is kept if its word is
/// >= p 2^32, and then scaled by 1 / (1 - p); p = 0 keeps all. A weight has 16 bits: its p is the
/// nearest multiple of 2^-16 below 1, in the comparison and in the scale.
struct DropoutKey {
  float p = 0;  // [0, 1)
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t site = 0;
  /// The derived key in the memory of the op's device; null: kernels get the key by value.
  const PhiloxKey* at = nullptr;
};

/// The smallest word that is kept: p 2^32 rounded up.
RINGLET_HOST_DEVICE constexpr std::uint32_t dropout_threshold(float p) {
  const double edge = static_cast<double>(p) * 4294967296.0;
  const auto floor = static_cast<std::uint32_t>(edge);
  return floor + (static_cast<double>(floor) < edge ? 1u : 0u);
}
RINGLET_HOST_DEVICE constexpr double dropout_scale(double p) { return 1 / (1 - p); }
/// The p of attention weights.
RINGLET_HOST_DEVICE constexpr float weight_share(float p) {
  const auto nearest = static_cast<std::uint32_t>(p * 65536.0 + 0.5);
  return static_cast<float>(nearest < 65535 ? nearest : 65535) / 65536;
}

}  // namespace ringlet
