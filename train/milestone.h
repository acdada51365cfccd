// The steps after which a run logs, evaluates and saves, by its arguments.
#pragma once

#include <cstdint>

#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {

/// After an update.
struct Milestone {
  std::int64_t step = 0;  // counted from 1
  bool ends_epoch = false;
  bool ends_run = false;
};

/// Whether `step` is a multiple of the interval; 0: never.
inline bool every(std::int64_t interval, std::int64_t step) {
  return interval > 0 && step % interval == 0;
}

bool evaluates_at(const Milestone& at, const TrainingArguments& arguments);
/// `is_best`: an evaluation there has found the best metric so far.
bool saves_at(const Milestone& at, const TrainingArguments& arguments, bool is_best);

}  // namespace ringlet::train
