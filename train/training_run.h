// One call of Trainer::train().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "ringlet/core/random.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/schedule.h"
#include "ringlet/train/step_graphs.h"
#include "ringlet/train/step_sums.h"
#include "ringlet/train/trainer.h"

namespace ringlet::train {

/// On a device that runs behind, a step is read while the next is under way, so that the device
/// always has one before it; where the model is looked at, all are.
class Trainer::Run {
 public:
  explicit Run(Trainer& trainer);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  TrainingResult operator()();

 private:
  /// A step that the device was given and nobody has read.
  struct Given {
    StepReport report;  // without what is to be read
    StepLoss loss;
  };

  /// Goes on from a checkpoint.
  void take_checkpoint();
  void note(const std::string& line) const;
  /// Where there can be any, the task's steps, update included, are graphs from here on.
  void use_graphs();
  /// What one rank was told all do.
  void agree_to_stop();
  bool stopped() const;

  /// One step; an error that leaves it says of which one it is, and on which rank.
  void step();
  void take_step();
  void update();
  /// Waits for the steps that the device was given, but for the `late` latest, and tells of them.
  void read_steps(std::size_t late);
  void read_loss(Given& given);
  void tell(const StepReport& report);

  /// True at the end of an epoch.
  bool advance();
  double epoch() const;
  std::int64_t total() const { return trainer_.total_steps_; }
  bool writes() const { return trainer_.group_.rank() == 0; }

  Metrics evaluate();
  void save();

  Trainer& trainer_;
  const TrainingArguments& arguments_;
  TrainingTask& task_;
  Device device_;
  bool late_;  // steps are read behind the next
  std::unique_ptr<Optimizer> optimizer_;
  std::shared_ptr<StepGraphs> graphs_;  // null: the task's steps leave the update to us
  GeneratorGuard guard_;
  Schedule schedule_;
  TrainerState state_;
  TrainingResult result_;
  StepSums sums_{state_, result_};
  std::optional<MetricsWriter> metrics_;
  std::deque<Given> given_;   // oldest first
  std::int64_t reading_ = 0;  // the step that an error is of
  bool stopping_ = false;     // all ranks have agreed to
  bool saving_ = false;
};

}  // namespace ringlet::train
