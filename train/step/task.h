// The training task of a Trainer: data, model and loss together, one step at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/base/names.h"
#include "ringlet/core/tensor/host_copy.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/data/loader.h"

namespace ringlet::train {

class Optimizer;
class StepGraphs;

enum class StepGraphMode { automatic, off };
inline constexpr EnumNames<StepGraphMode, 2> kStepGraphModes{"step graph mode", {"auto", "off"}};

/// Rows of one data set in an epoch.
struct EpochRows {
  std::size_t used = 0;
  std::size_t all = 0;
};

struct StepResult {
  double loss = 0;  // mean over the step's rows; step() leaves it to take_loss()
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
    bool ends_rank = true;  // the last one of a logical rank
  };
  StepLoss() = default;
  explicit StepLoss(const std::vector<Part>& parts);
  /// The sum of each logical rank of this rank. The first call waits for the copy; 0 without parts.
  std::vector<double> by_logical_rank();
  /// The sum of these.
  double value();

 private:
  HostCopy values_;
  std::vector<Part> parts_;  // without values
};

/// The part of tasks that does not depend on the type of their batches.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  /// All that is trained, loss heads included.
  nn::Module& module() const { return module_; }
  /// Runs the next step forward and backward; gradients are then complete. An epoch's last step is
  /// followed by the first one of the next epoch.
  StepResult step();
  /// The update that follows, unless a graph has launched it with the step. Checks and zero_grad()
  /// are left to the caller.
  void update(Optimizer& optimizer) const;
  /// Runs the latest batch again, to measure it.
  void run_again();
  /// The loss of the latest step, once; must be taken before the next step runs.
  StepLoss take_loss() { return StepLoss(std::exchange(losses_, {})); }
  /// The micro-batch that step() computes or has failed in; none outside, and if it has only one.
  std::optional<std::size_t> micro_batch() const { return micro_batch_; }

  std::size_t steps_per_epoch(std::size_t epoch) const { return loader().steps_per_epoch(epoch); }
  const Sampler& sampler() const { return loader().sampler(); }
  void seek(Position position) { loader().seek(position); }
  /// The data and its division into steps, which must agree to resume.
  virtual UpdateArguments arguments() const { return loader().arguments(); }
  /// Names that StepResult::dataset indexes; losses of several data sets are logged separately.
  std::vector<std::string> dataset_names() const { return short_names(loader().datasets()); }
  /// Rows of each data set that this epoch uses, in the order of dataset_names().
  std::vector<EpochRows> epoch_rows(std::size_t epoch) const;

  /// From now on `graphs` runs the forward and backward of step(), and the update that follows.
  /// Null: step() runs forward and backward itself. False if the task has no batches for graphs.
  bool use_graphs(std::shared_ptr<StepGraphs> graphs);

 protected:
  explicit TrainingTask(nn::Module& module) : module_(module) {}
  virtual StepLoader& loader() const = 0;
  /// Takes the next batch; null at the end of an epoch.
  virtual bool next() = 0;
  /// Adds the counts of this batch.
  virtual void count(StepResult& result) const = 0;
  /// Forward and backward of this batch. Its loss, of one element, on its device; undefined: the
  /// step's last batch brings it.
  virtual Tensor run() = 0;
  /// Returns the loss of a micro-batch when its gradients are complete.
  Tensor forward_and_backward(const std::function<Variable()>& loss) const;

  virtual bool has_graphs() const { return false; }  // whether run() takes them

  std::optional<std::size_t> micro_batch_;
  std::shared_ptr<StepGraphs> graphs_;

 private:
  nn::Module& module_;
  std::vector<StepLoss::Part> losses_;  // of the step that ran last
};

/// Any module on batches of a loader, with a loss hook: one number, the mean over a batch's rows.
template <class Batch>
class Task : public TrainingTask {
 public:
  using LossHook = std::function<Variable(const Batch& batch)>;

  Task(nn::Module& module, std::unique_ptr<Loader<Batch>> loader, LossHook loss)
      : TrainingTask(module), loader_(std::move(loader)), loss_(std::move(loss)) {}
  Task(nn::Module& module, std::size_t examples, Collate<Batch> collate, LossHook loss,
       LoaderOptions options = {})
      : Task(module,
             std::make_unique<Loader<Batch>>(examples, std::move(collate), std::move(options)),
             std::move(loss)) {}

  Variable loss(const Batch& batch) const { return loss_(batch); }
  /// The latest one.
  const Batch& batch() const { return *batch_; }

 protected:
  StepLoader& loader() const override { return *loader_; }
  bool next() override { return (batch_ = loader_->next()) != nullptr; }
  void count(StepResult& result) const override {
    result.rows += static_cast<std::int64_t>(loader_->share().rows);
  }
  Tensor run() override { return run_eagerly(*batch_); }
  Tensor run_eagerly(const Batch& batch) {
    return forward_and_backward([&] { return loss_(batch); });
  }

 private:
  std::unique_ptr<Loader<Batch>> loader_;
  LossHook loss_;
  const Batch* batch_ = nullptr;
};

}  // namespace ringlet::train
