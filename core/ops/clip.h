// The global norm from the sums of its blocks, and the factor that clips to it. Formulas and the
// order of additions are the same on every device.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ringlet/core/base/host_device.h"

namespace ringlet {

/// Lane l adds blocks l, l + kClipLanes, … in this order. Then, for half = kClipLanes / 2, …, 2, 1,
/// lane l < half adds the sum of lane l + half.
inline constexpr int kClipLanes = 1024;

RINGLET_HOST_DEVICE double clip_lane(const double* blocks, std::int64_t n, int lane) {
  double sum = 0;
  for (std::int64_t i = lane; i < n; i += kClipLanes) sum += blocks[i];
  return sum;
}

struct ClipResult {
  double norm;
  double factor;
};
/// From the sum of squares. With `check_finite`, a norm that is not finite has the factor NaN.
RINGLET_HOST_DEVICE ClipResult clip_of(double sum, double max_norm, bool check_finite) {
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const double norm = std::sqrt(sum);
  if (check_finite && !(norm <= kMost)) return {norm, kNone};
  const double factor = max_norm / (norm + 1e-6);
  return {norm, max_norm > 0 && factor < 1 ? factor : 1.0};
}

/// Whether a step with this factor (NaN) is skipped.
RINGLET_HOST_DEVICE bool is_none(double factor) { return factor != factor; }

/// Writes to out (3): the norm, the factor, and the first block that is not finite if the factor is
/// NaN (else n). With `check_finite`, a NaN already in out is kept together with the other two.
/// Steps after a refused one therefore update nothing until the host has read it.
RINGLET_HOST_DEVICE void write_clip(double* out, double sum, const double* blocks, std::int64_t n,
                                    double max_norm, bool check_finite) {
  if (check_finite && is_none(out[1])) return;
  constexpr double kMost = std::numeric_limits<double>::max();
  const ClipResult clip = clip_of(sum, max_norm, check_finite);
  std::int64_t first = is_none(clip.factor) ? 0 : n;
  while (first < n && blocks[first] <= kMost) ++first;
  out[0] = clip.norm;
  out[1] = clip.factor;
  out[2] = static_cast<double>(first);
}

}  // namespace ringlet
