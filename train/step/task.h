// The training task of a Trainer: data, model and loss together, one step at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/tensor/host_copy.h"
#include "ringlet/core/tensor/tensor.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/data/step_loader.h"

namespace ringlet::train {

class StepGraphs;

/// Rows of one data set in an epoch.
struct EpochRows {
  std::size_t used = 0;
  std::size_t all = 0;
};

struct StepResult {
  double loss = 0;  // mean over the step's rows; a task's step() leaves it to take_loss()
  std::int64_t rows = 0;
  std::int64_t tokens = 0;  // without padding
  /// Rows without a gradient: their device's part of the batch has fewer rows than the loss needs
  /// (Loss::min_rows). A data set's last batch may have such rows.
  std::int64_t lone_rows = 0;
  std::size_t dataset = 0;  // which one the rows are from
  double data_seconds = 0;  // until the step had its batches
};

/// The loss of a step, copied to the host asynchronously.
class StepLoss {
 public:
  /// One summand of the loss: a value of one element, times its share.
  struct Part {
    Tensor value;
    double share;
  };
  StepLoss() = default;
  explicit StepLoss(const std::vector<Part>& parts);
  /// The first call waits for the copy; 0 without parts.
  double value();

 private:
  HostCopy values_;
  std::vector<double> shares_;
};

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  /// All that is trained, loss heads included.
  virtual nn::Module& module() = 0;
  virtual std::size_t steps_per_epoch(std::size_t epoch) const = 0;
  virtual void seek(Position position) = 0;
  /// Runs the next step forward and backward; gradients are then complete. An epoch's last step is
  /// followed by the first one of the next epoch.
  virtual StepResult step() = 0;
  /// The loss of the latest step, once; must be taken before the next step runs.
  StepLoss take_loss() { return StepLoss(std::exchange(losses_, {})); }
  /// The micro-batch that step() computes or has failed in; none outside, and if it has only one.
  std::optional<std::size_t> micro_batch() const { return micro_batch_; }
  /// The data and its division into steps, which must agree to resume.
  virtual UpdateArguments arguments() const = 0;
  /// Names that StepResult::dataset indexes; losses of several data sets are logged separately.
  virtual std::vector<std::string> dataset_names() const { return {}; }
  /// Rows of each data set that this epoch uses, in the order of dataset_names().
  virtual std::vector<EpochRows> epoch_rows(std::size_t /*epoch*/) const { return {}; }

  /// From now on `graphs` runs the forward and backward of step(), and the update that follows.
  /// Null: step() runs forward and backward itself. False if the task has no batches for graphs.
  virtual bool use_graphs(std::shared_ptr<StepGraphs>) { return false; }

  /// The strategy's switch (see NoSync): a task with several backwards in a step turns it on for
  /// all but the last one.
  void set_pause(std::shared_ptr<int> pause) { pause_ = std::move(pause); }

 protected:
  /// Adds `value`, of one element, times `share` to the step's loss; it stays on its device.
  void add_loss(const Tensor& value, double share = 1) { losses_.push_back({value, share}); }

  std::shared_ptr<int> pause_ = std::make_shared<int>(0);
  std::optional<std::size_t> micro_batch_;

 private:
  std::vector<StepLoss::Part> losses_;  // of the step that ran last
};

}  // namespace ringlet::train
