// One rank of one row: a model, its data and a strategy, run and timed by steps.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "measurement.h"
#include "options.h"
#include "ringlet/comm/group.h"
#include "ringlet/core/cpu/resource_use.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/train/optimizer/update_rules.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/parallel/model/sentence_pipeline.h"
#include "ringlet/train/step/sentence_task.h"
#include "ringlet/train/step/step_graphs.h"
#include "source.h"

namespace ringlet::bench {

/// The rows that --strategy and --devices select; InputError lists the valid names.
std::vector<Plan> plan_rows(const ThroughputOptions& options);

class Runner {
 public:
  Runner(const ThroughputOptions& options, const Plan& plan, const comm::Group& group);

  void warm_up(int steps);
  /// After timed steps: returns to the first of them. This takes a step that is not timed.
  void return_to_first();
  /// Starts timing: later steps are counted.
  void start_timing();
  void timed_step(StepProfile* profile);
  /// Error if a loss or a gradient was NaN or infinite.
  Measurement measured();
  /// Runs this many more steps of a GPU and records them, which slows this process down afterwards.
  /// Error if recording is impossible.
  DeviceIdle record_idle(int steps);

 private:
  /// When the device completed each phase; the first is the start. Null inside a graph.
  using Times = std::array<std::unique_ptr<DeviceTime>, kPhases.size() + 1>;
  struct Counts {
    double real_tokens = 0, padded_tokens = 0, pairs = 0, sentences = 0;
  };

  /// The trainer's step, with the times of its phases.
  class TimedTask final : public train::SentenceTask {
   public:
    TimedTask(Runner& runner, Source& source);
    train::Position position() const { return loader().position(); }

   private:
    Tensor run() override;
    Variable forward(const models::PackedBatch& batch) const;
    Runner& runner_;
    models::Loss& loss_;
  };

  train::AttachedStrategy attach(const ThroughputOptions& options, const Plan& plan);
  /// `again`: with the batch of the previous step.
  Times step(bool again);
  /// The loss of the latest step is finite.
  void check_loss();
  void count_tokens();
  /// Adds the counts of the latest batch to the step's.
  void count_batch();
  /// Adds those of the latest step to the steps'.
  void count_step();
  void add_times(Measurement& out) const;
  /// False as soon as a step was not replayed.
  bool replay(int steps);

  Device device_;
  DType dtype_;

  Source source_;
  Times now_;  // of the step that is running
  TimedTask task_;
  comm::Group group_;
  bool together_;
  bool dealt_out_;  // the model or its state is distributed over several devices
  bool counts_;     // this rank's rows are no other's
  bool several_;    // some device has several batches of a step
  std::shared_ptr<train::SentencePipeline> pipeline_;  // null unless the plan has stages
  train::AttachedStrategy strategy_;
  train::AdamW optimizer_;
  std::shared_ptr<train::StepGraphs> graphs_;  // of a GPU
  train::StepLoss loss_;                       // of the latest step
  bool stepped_ = false;
  train::Position at_;            // of the latest step
  Counts counted_;                // of its batches
  std::int64_t most_tokens_ = 0;  // of a training batch, except the first
  Measurement sum_;
  // For the timed steps:
  train::Position last_warm_up_;
  std::vector<Times> times_;
  std::vector<bool> were_replayed_;
  std::uint64_t system_allocations_ = 0;  // after the first step of a bucket
  // At the first timed step:
  comm::GroupStats before_;
  double exchanged_before_ = 0;
  ResourceUse used_before_;
  std::size_t replayed_before_ = 0;
};

/// Warms up and times one round on all ranks of a row, in separate processes. So one model is in
/// memory at a time and each row starts from the same state. A GPU's round runs in this process, as
/// a child could not use its parent's driver. So does a round under a launcher; every rank calls
/// it. Throws the error of any rank.
/// `last`: nothing is timed afterwards, so a GPU's activity is recorded, too.
Measurement run_round(const ThroughputOptions& options, const Plan& plan, bool last);

/// The result of `measure` on the first of this many ranks, pinned and connected as those of a
/// round. All ranks of a launcher call it.
using MeasureRank = std::function<std::string(const comm::Group&)>;
std::string on_ranks(const ThroughputOptions& options, int ranks, const MeasureRank& measure,
                     int devices_each = 1);

}  // namespace ringlet::bench
