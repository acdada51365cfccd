// A trainer's job: its task, its arguments, and where a run reports.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/train/metrics.h"
#include "ringlet/train/task.h"
#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {

using EvaluateFunction = std::function<Metrics(const EvaluationPoint&)>;

/// Over all ranks together, the same on each.
struct StepReport {
  std::int64_t step = 0;  // done, counted from 1
  std::int64_t total_steps = 0;
  double epoch = 0;
  StepResult result;
  double lr = 0;
  double grad_norm = 0;  // before clipping
};

/// Callbacks for a program's output; the library itself prints nothing. Empty ones are skipped.
struct TrainerCallbacks {
  /// On a GPU, between evaluations and checkpoints, each step is reported while the next one is in
  /// flight.
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(const EvaluationPoint&, const Metrics&)> on_evaluate = {};
  std::function<void(const std::filesystem::path& checkpoint)> on_save = {};
  /// One line about anything that the run does differently than requested.
  std::function<void(const std::string&)> on_note = {};
};

struct TrainingResult {
  std::int64_t steps = 0;   // done in all, also before resuming
  double loss = 0;          // mean over all these steps
  Metrics dataset_losses;   // with several data sets, the mean over each one's steps
  double seconds = 0;       // of training, without evaluating and saving
  double data_seconds = 0;  // of these, until steps had their batches
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t lone_rows = 0;       // StepResult's, of all these steps
  std::int64_t replayed_steps = 0;  // that replayed a graph
  /// One row per finished epoch: its mean loss and the metrics of the evaluation after it.
  struct Epoch {
    std::size_t epoch;  // counted from 1
    double loss;
    Metrics metrics;
  };
  std::vector<Epoch> epochs;
};

/// A line for each epoch: its number, its training loss and the evaluation's figures, "eval_loss"
/// below "Validation Loss".
std::string epoch_table(const TrainingResult& result);

/// The data that a Trainer shares with its runs.
struct TrainingJob {
  std::unique_ptr<TrainingTask> task;
  TrainingArguments arguments;
  comm::Group group;
  TrainerCallbacks callbacks = {};
  std::vector<EvaluateFunction> evaluators = {};
  std::int64_t total_steps = 0;
  // Requests of a callback or an evaluator.
  bool stopped = false;
  bool save_at_stop = false;
};

}  // namespace ringlet::train
