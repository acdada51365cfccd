#include "ringlet/train/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ringlet/core/base/setting.h"

namespace ringlet::train {

std::int64_t warmup_steps_of(double ratio, std::int64_t total_steps) {
  if (!(ratio >= 0 && ratio <= 1)) {
    fail_setting("warmup_ratio", ": expected a number from 0 to 1, found ", ratio);
  }
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(total_steps) * ratio));
}

Schedule::Schedule(Decay decay, std::int64_t total_steps, std::int64_t warmup_steps)
    : decay_(decay), total_steps_(total_steps), warmup_steps_(warmup_steps) {
  if (total_steps < 0) fail_setting("total_steps", ": expected 0 or more, found ", total_steps);
  if (warmup_steps < 0) fail_setting("warmup_steps", ": expected 0 or more, found ", warmup_steps);
}

double Schedule::factor(std::int64_t step) const {
  if (function_) {
    const double factor = function_(step);
    RINGLET_CHECK(std::isfinite(factor) && factor >= 0, "[schedule] the factor of step ", step,
                  ": expected 0 or more, found ", factor);
    return factor;
  }
  const auto at_least_one = [](std::int64_t n) {
    return static_cast<double>(std::max<std::int64_t>(1, n));
  };
  if (step < warmup_steps_) return static_cast<double>(step) / at_least_one(warmup_steps_);
  const double decaying = at_least_one(total_steps_ - warmup_steps_);
  switch (decay_) {
    case Decay::linear:
      return std::max(0.0, static_cast<double>(total_steps_ - step) / decaying);
    case Decay::cosine: {
      // After the end, the cosine of transformers rises again; here it stays 0.
      const double progress = std::min(1.0, static_cast<double>(step - warmup_steps_) / decaying);
      return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    }
    case Decay::constant:
      break;
  }
  return 1.0;
}

}  // namespace ringlet::train
