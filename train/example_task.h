// Training any module on numbered examples: a collate function makes a batch of some of them, and a
// loss hook computes one number from it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "ringlet/core/device/wait_observer.h"
#include "ringlet/train/data/example_loader.h"
#include "ringlet/train/parallel/no_sync.h"
#include "ringlet/train/report/timeline.h"
#include "ringlet/train/step/task.h"

namespace ringlet::train {

template <class Batch>
class ExampleTask final : public TrainingTask {
 public:
  using Collate = typename ExampleLoader<Batch>::Collate;
  using LossHook = std::function<Variable(const Batch& batch)>;  // mean over the batch's rows

  ExampleTask(nn::Module& module, std::size_t examples, Collate collate, LossHook loss,
              ExampleOptions options = {})
      : module_(module), loader_(examples, std::move(collate), options), loss_(std::move(loss)) {}

  nn::Module& module() override { return module_; }
  std::size_t steps_per_epoch(std::size_t) const override { return loader_.steps_per_epoch(); }
  void seek(Position position) override { loader_.seek(position); }
  UpdateArguments arguments() const override { return loader_.arguments(); }
  std::vector<EpochRows> epoch_rows(std::size_t) const override {
    return {{loader_.examples(), loader_.examples()}};
  }
  Variable loss(const Batch& batch) const { return loss_(batch); }

  StepResult step() override {
    StepResult result;
    micro_batch_.reset();  // of a step that threw
    for (std::size_t micro = 0; micro == 0 || !loader_.share().ends_step; ++micro) {
      if (micro > 0) micro_batch_ = micro;
      const auto start = std::chrono::steady_clock::now();
      const Batch& batch = next();
      result.data_seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (!loader_.share().ends_step) micro_batch_ = micro;  // the first one, too
      std::optional<NoSync> no_sync;
      if (!loader_.share().ends_step) no_sync.emplace(pause_);
      const Variable value = forward(batch);
      const TimelinePhase phase("backward");
      loader_.weigh(value).backward();
      add_loss(value.tensor(), loader_.share().factor);
      result.rows += static_cast<std::int64_t>(loader_.share().rows);
    }
    micro_batch_.reset();
    return result;
  }

 private:
  const Batch& next() {
    const TimelinePhase phase("data");
    const ObservedWait observed("data");
    const Batch* batch = loader_.next();
    return batch ? *batch : *loader_.next();  // the first of the next epoch
  }
  Variable forward(const Batch& batch) const {
    const TimelinePhase phase("forward");
    return loss_(batch);
  }

  nn::Module& module_;
  ExampleLoader<Batch> loader_;
  LossHook loss_;
};

}  // namespace ringlet::train
