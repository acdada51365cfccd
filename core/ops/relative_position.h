// MPNet's relative positions: the index of a token pair's learned bias, one of 32. The rule is T5's
// bidirectional one (transformers, MPNetEncoder.relative_position_bucket) with 32 buckets and
// maximal distance 128.
#pragma once

#include <bit>
#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet {

inline constexpr int kRelativeBuckets = 32;

/// The bucket of `distance` = key - query. Keys to the right take the upper 16. Within a side, n =
/// |distance| below 8 is its own bucket. Above, the bucket is 8 + floor(8 ln(n / 8) / ln 16), at
/// most 15. This equals 8 + floor(log2(n^2 / 64)) and is computed in integers.
RINGLET_HOST_DEVICE constexpr int relative_position_bucket(std::int64_t distance) {
  const int side = distance > 0 ? kRelativeBuckets / 2 : 0;
  const std::int64_t n = distance < 0 ? -distance : distance;
  if (n < 8) return side + static_cast<int>(n);
  if (n >= 128) return side + 15;
  const auto square = static_cast<unsigned>(n * n);
#if defined(__CUDA_ARCH__)
  return side + 33 - __clz(static_cast<int>(square));
#else
  return side + 1 + std::bit_width(square);
#endif
}

}  // namespace ringlet
