// MPNet's relative positions: the index of a token pair's learned bias, one of 32. The rule is T5's
// bidirectional one (transformers, MPNetEncoder.relative_position_bucket) with 32 buckets and
// maximal distance 128.
#pragma once

#include <bit>

#include "ringlet/core/base/host_device.h"

namespace ringlet {

inline constexpr int kRelativeBuckets = 32;

/// The bucket of `distance` = key - query. Keys to the right take the upper 16. Within a side, n =
/// |distance| below 8 is its own bucket. Above, the bucket is 8 + floor(8 ln(n / 8) / ln 16), at
/// most 15. This equals 8 + floor(log2(n^2 / 64)) and is computed in integers.
RINGLET_HOST_DEVICE constexpr int relative_position_bucket(int distance) {
  const int side = distance > 0 ? kRelativeBuckets / 2 : 0;
  const int far = distance < 0 ? -distance : distance, n = far < 127 ? far : 127;
#if defined(__CUDA_ARCH__)
  const int bits = 32 - __clz(n * n);
#else
  const int bits = std::bit_width(static_cast<unsigned>(n * n));
#endif
  return side + (n < 8 ? n : bits + 1);
}

}  // namespace ringlet
