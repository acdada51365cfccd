// The progress of a training, which its checkpoints keep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "ringlet/core/tensor/random.h"
#include "ringlet/train/step/task.h"
#include "ringlet/train/step/trainer_callback.h"

namespace ringlet::train {

/// The evaluation with the best metric so far. No rotation removes the checkpoint of its step.
struct BestModel {
  double metric = 0;
  std::int64_t step = 0;
  std::filesystem::path output_dir = ".";  // of its checkpoint, from the run's
  bool operator==(const BestModel&) const = default;
};

struct TrainerState {
  std::int64_t step = 0;                      // updates done
  Position position;                          // of the next step in the data
  std::vector<Position> more_positions = {};  // of an accelerator's loaders after the first
  RandomGenerator generator;
  UpdateArguments arguments;  // the task's and the trainer's
  /// Loss since the last line of metrics.
  struct LossSum {
    double sum = 0;
    std::int64_t steps = 0;
    bool operator==(const LossSum&) const = default;
  };
  LossSum loss;
  LossSum epoch_loss;  // since the epoch began
  LossSum run_loss;    // since the first step
  std::int64_t lone_rows = 0;
  // With several data sets: loss and run_loss of each.
  std::vector<LossSum> dataset_losses;
  std::vector<LossSum> dataset_run_losses;
  std::optional<BestModel> best = {};
  CallbackState callbacks = {};
};

struct TrainingResult {
  std::int64_t steps = 0;    // done in all, also before resuming
  double loss = 0;           // mean over all these steps
  Metrics dataset_losses;    // with several data sets, the mean over each one's steps
  double seconds = 0;        // of training, without evaluating and saving
  double data_seconds = 0;   // of these, until steps had their batches
  double audit_seconds = 0;  // of digests for audit.jsonl
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t lone_rows = 0;       // StepResult's, of all these steps
  std::int64_t replayed_steps = 0;  // that replayed a graph
  bool saved_at_stop = false;       // stop(/*save=*/true) ended the run
  std::optional<BestModel> best;    // with a metric_for_best_model
  /// One row per finished epoch: its mean loss and the metrics of the evaluation after it.
  struct Epoch {
    std::size_t epoch;  // counted from 1
    double loss;
    Metrics metrics;
  };
  std::vector<Epoch> epochs;
};

}  // namespace ringlet::train
