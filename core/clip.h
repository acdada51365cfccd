// The global norm from the sums of its blocks, and the factor that clips to it: the order of the
// additions and the formulas, the same on every device.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ringlet/core/host_device.h"

namespace ringlet {

/// Lane l adds blocks l, l + kClipLanes, … in this order; then, for half = kClipLanes / 2, …, 2, 1,
/// lane l < half adds the sum of lane l + half.
inline constexpr int kClipLanes = 1024;

RINGLET_HOST_DEVICE double clip_lane(const double* blocks, std::int64_t n, int lane) {
  double sum = 0;
  for (std::int64_t i = lane; i < n; i += kClipLanes) sum += blocks[i];
  return sum;
}

struct Clip {
  double norm;
  double factor;
};
/// Of the sum of squares. With `check_finite` the factor of a norm that is not finite is none.
RINGLET_HOST_DEVICE Clip clip_of(double sum, double max_norm, bool check_finite) {
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const double norm = std::sqrt(sum);
  if (check_finite && !(norm <= kMost)) return {norm, kNone};
  const double factor = max_norm / (norm + 1e-6);
  return {norm, max_norm > 0 && factor < 1 ? factor : 1.0};
}

/// Whether a step with this factor leaves everything as it is.
RINGLET_HOST_DEVICE bool is_none(double factor) { return factor != factor; }

}  // namespace ringlet
