// A trainer's job: its task, its arguments, and where a run reports.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/train/report/metrics.h"
#include "ringlet/train/step/task.h"
#include "ringlet/train/step/trainer_callback.h"
#include "ringlet/train/step/trainer_state.h"
#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {

using EvaluateFunction = std::function<Metrics(const EvaluationPoint&)>;

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

/// A line for each epoch: its number, its training loss and the evaluation's figures, "eval_loss"
/// below "Validation Loss".
std::string epoch_table(const TrainingResult& result);

/// The figures' names, if they are known before the first evaluation.
struct JobEvaluator {
  EvaluateFunction evaluate;
  std::vector<std::string> figures;
};

/// The data that a Trainer shares with its runs.
struct TrainingJob {
  std::unique_ptr<TrainingTask> task;
  TrainingArguments arguments;
  comm::Group group;
  Mesh mesh = {};
  std::vector<TrainerCallback> callbacks = {};
  std::vector<JobEvaluator> evaluators = {};
  std::int64_t total_steps = 0;
  // Requests of a callback or an evaluator.
  bool stopped = false;
  bool save_at_stop = false;
};

}  // namespace ringlet::train
