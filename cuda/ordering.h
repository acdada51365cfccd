// The order of topk: the largest (smallest) first, equal elements by place; NaN before everything.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

/// An element and its place. `place` < 0: no element; ordered last.
template <class S>
struct Placed {
  S value;
  std::int64_t place;
};

/// Whether a comes before b. No two places are equal, so every sorting method gives one order.
template <bool smallest, class S>
RINGLET_HOST_DEVICE bool comes_before(const Placed<S>& a, const Placed<S>& b) {
  if (a.place < 0 || b.place < 0) return a.place >= 0 && b.place < 0;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return a_nan && (!b_nan || a.place < b.place);
  if (a.value == b.value) return a.place < b.place;
  return smallest ? a.value < b.value : a.value > b.value;
}

}  // namespace ringlet::cuda
