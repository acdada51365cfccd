// Ends a run when its evaluations no longer get better.
//
//   trainer.add_callback(early_stopping(trainer, {.patience = 3}));
#pragma once

#include "ringlet/train/trainer.h"

namespace ringlet::train {

struct EarlyStoppingOptions {
  std::int64_t patience = 1;  // evaluations in succession that are not better
  double threshold = 0;       // the metric must be better by more than this
};

/// Compares metric_for_best_model; load_best_model_at_end alone compares "loss". The count of
/// evaluations is part of checkpoints. train() throws InputError if the arguments have no
/// evaluations or no metric. `trainer` must stay where it is while it has the callback.
TrainerCallback early_stopping(Trainer& trainer, EarlyStoppingOptions options = {});

}  // namespace ringlet::train
