// Numbers of a distribution, and dropout, from a Philox block. The operations are those of
// core/cpu/random.cpp.
#pragma once

#include <math.h>

#include "ringlet/core/ops/random.h"
#include "ringlet/cuda/row_dropout.h"

namespace ringlet::cuda {

/// The words of elements [4 block, 4 block + 4) of a random tensor.
RINGLET_HOST_DEVICE PhiloxBlock tensor_words(std::int64_t block, PhiloxKey key) {
  const auto counter = static_cast<std::uint64_t>(block);
  return philox(
      {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}},
      key);
}

/// low + (high - low) u, where u in [0, 1) is a multiple of 2^-24.
RINGLET_HOST_DEVICE double uniform_of(std::uint32_t word, double low, double high) {
  return low + (high - low) * ((word >> 8) * 0x1p-24);
}

struct NormalPair {
  double first, second;
};
/// Box-Muller. The first uniform is in (0, 1], so the logarithm is finite.
RINGLET_HOST_DEVICE NormalPair normal_of(std::uint32_t first, std::uint32_t second, double mean,
                                         double std) {
  const double radius = std * ::sqrt(-2 * ::log((first + 1.0) * 0x1p-32));
  const double angle = 6.28318530717958647693 * (second * 0x1p-32);
  return {mean + radius * ::cos(angle), mean + radius * ::sin(angle)};
}

/// The words of columns [4 block, 4 block + 4) of a row of activations.
RINGLET_HOST_DEVICE PhiloxBlock row_words(const RowDropout& dropout, std::int64_t row,
                                          std::int64_t block) {
  const RowPlace place = place_of(dropout, row);
  return philox({{place.sentence, place.token, 0, static_cast<std::uint32_t>(block)}},
                key_of(dropout));
}

/// x / (1 - p) if the word keeps it, else +0, for every x.
template <class S>
RINGLET_HOST_DEVICE S drop(S x, std::uint32_t word, const Dropout& dropout) {
  return word >= dropout.threshold ? x * static_cast<S>(dropout.scale) : S{0};
}

}  // namespace ringlet::cuda
