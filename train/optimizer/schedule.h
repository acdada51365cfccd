// Learning rate schedules: the factor of each step's rate. The definitions are those of
// transformers' get_{linear,cosine,constant}_schedule_with_warmup.
#pragma once

#include <cstdint>
#include <functional>

#include "ringlet/core/base/names.h"

namespace ringlet::train {

enum class Decay {
  linear,    ///< to 0 at the last step
  cosine,    ///< half a cosine, to 0
  constant,  ///< none
};

inline constexpr EnumNames<Decay, 3> kDecays{"schedule", {"linear", "cosine", "constant"}};

/// ceil(ratio * total_steps); a ratio outside [0, 1] is InputError.
std::int64_t warmup_steps_of(double ratio, std::int64_t total_steps);

/// A pure function of the step. It rises linearly from 0 over `warmup_steps`, then decays to 0 at
/// `total_steps` and stays 0 (1 if constant).
class Schedule {
 public:
  Schedule() = default;  // 1 at every step
  Schedule(Decay decay, std::int64_t total_steps, std::int64_t warmup_steps = 0);
  /// The factors of another function, which has its own warm-up: torch's LambdaLR.
  explicit Schedule(std::function<double(std::int64_t step)> factor)
      : function_(std::move(factor)) {}

  /// The factor of step 0, 1, …; that of the first update of a warm-up is 0.
  double factor(std::int64_t step) const;

 private:
  Decay decay_ = Decay::constant;
  std::int64_t total_steps_ = 0;
  std::int64_t warmup_steps_ = 0;
  std::function<double(std::int64_t)> function_ = {};
};

}  // namespace ringlet::train
