// Sums over the steps of a run: losses, rates and waits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/core/cpu/resource_use.h"
#include "ringlet/train/report/metrics.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train {

/// The results of all ranks of `group`, combined; `losses` are those of this rank's logical ranks,
/// added in their order. Error, with the rank of the world, if a loss is not finite; `late`: after
/// the step's update.
StepResult combined(const StepResult& mine, const std::vector<double>& losses, int world_rank,
                    const comm::Group& group, bool late);

class StepSums {
 public:
  /// Adds to `state` and `result`, which outlive it.
  StepSums(TrainerState& state, TrainingResult& result) : state_(state), result_(result) {}

  /// The time from here on belongs to the next step.
  void start_clock();
  /// The time since start_clock(), or since the previous step was added, belongs to this step.
  void add(const StepResult& step);

  /// A line of metrics over the steps since the last; `datasets`: TrainingTask::dataset_names().
  Metrics take_metrics(const std::vector<std::string>& datasets, double lr, double grad_norm);
  /// The mean loss of the epoch that ends here.
  double take_epoch_loss();
  /// The mean loss of all steps; 0 without one.
  double run_loss() const;
  /// The same of each data set that had a step.
  Metrics dataset_run_losses(const std::vector<std::string>& datasets) const;

 private:
  TrainerState& state_;
  TrainingResult& result_;
  double began_ = 0;  // the clock's start, seconds
  ResourceUse used_before_{};
  struct {
    double seconds = 0;
    std::int64_t rows = 0, tokens = 0;
    double steps = 0, data_seconds = 0;
    ResourceUse used;
  } since_metrics_;
};

}  // namespace ringlet::train
