// One call of Trainer::train().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/core/tensor/random.h"
#include "ringlet/train/checkpoint/audit.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/checkpoint/snapshot.h"
#include "ringlet/train/optimizer/schedule.h"
#include "ringlet/train/step/best_metric.h"
#include "ringlet/train/step/step_graphs.h"
#include "ringlet/train/step/step_sums.h"
#include "ringlet/train/step/task.h"
#include "ringlet/train/step/trainer_callback.h"
#include "ringlet/train/step/trainer_state.h"
#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {

/// The data that a Trainer shares with its runs.
struct TrainingJob {
  struct Evaluator {
    std::function<Metrics(const EvaluationPoint&)> evaluate;
    std::vector<std::string> figures;  // their names, if they are known before the first evaluation
  };
  comm::Group group;  // destroyed after the task's graphs
  std::unique_ptr<TrainingTask> task;
  TrainingArguments arguments;
  Mesh mesh = {};
  std::vector<TrainerCallback> callbacks = {};
  std::vector<Evaluator> evaluators = {};
  std::int64_t total_steps = 0;
  // Requests of a callback or an evaluator.
  bool stopped = false;
  bool save_at_stop = false;
  std::optional<Snapshot> snapshot = {};  // where train() begins, instead of at a checkpoint
  std::optional<Snapshot> left = {};      // where the latest train() ended, for the next world
};

/// After an update.
struct StepEnd {
  std::int64_t step = 0;  // counted from 1
  bool ends_epoch = false;
  bool ends_run = false;
};

/// If the device is asynchronous, a step's results are read while the next step is in flight, so
/// that the device always has work. All steps are read before evaluations and checkpoints.
class TrainingRun {
 public:
  explicit TrainingRun(TrainingJob& job);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  TrainingResult operator()();
  /// After the last step or an error: what this rank has. Nothing where ranks hold different parts
  /// without redundancy, or where the device may be behind.
  std::optional<Snapshot> snapshot();

 private:
  bool has_snapshot() const;
  /// A step that is enqueued on the device and not read yet.
  struct EnqueuedStep {
    StepReport report;  // without the values to be read
    StepLoss loss;
  };
  void check_metric() const;
  /// Continues from a checkpoint.
  void take_checkpoint();
  void take_snapshot(Snapshot& snapshot);
  /// With redundancy: lets the next rank have this one's shard.
  void copy_shard();
  /// The copies of the latest update get the state as it is now.
  void refresh_copies();
  void load_best();
  /// Calls `event` of all callbacks with the arguments.
  template <class Event, class... Arguments>
  void call(Event TrainerCallback::*event, const Arguments&... arguments) const {
    for (const TrainerCallback& callback : job_.callbacks)
      if (callback.*event) (callback.*event)(arguments...);
  }
  void note(const std::string& line) const { call(&TrainerCallback::on_note, line); }
  /// If possible, the task's steps, update included, run as graphs from here on.
  void use_graphs();
  void note_idle_stages() const;
  /// A stop on one rank stops all ranks. All learn of a rank that waits to join.
  void agree_to_stop();
  bool stopped() const;

  /// Runs one step. An error that leaves it names the step and the rank.
  void step();
  void take_step();
  /// Evaluates, saves and ends the epoch, as far as these follow the step.
  void end_step(const StepEnd& end);
  /// Waits for the enqueued steps, except the `late` latest, and reports them.
  void read_steps(std::size_t late);
  void read_loss(EnqueuedStep& given);
  void report(const StepReport& report);

  /// True at the end of an epoch.
  bool advance();
  double epoch() const;
  std::int64_t total() const { return job_.total_steps; }
  bool writes() const { return job_.group.rank() == 0; }

  void end_epoch(std::size_t epoch);
  void log(const LogReport& report);
  Metrics evaluate();
  void save();
  CallbackState callback_state() const;
  /// Writes a line of audit.jsonl.
  void audit();

  TrainingJob& job_;
  const TrainingArguments& arguments_;
  TrainingTask& task_;
  Device device_;
  bool late_;  // a step is read after the next is enqueued
  std::unique_ptr<Optimizer> optimizer_;
  std::shared_ptr<StepGraphs> graphs_;  // null: the update runs here
  GeneratorGuard guard_;
  Schedule schedule_;
  TrainerState state_;
  TrainingResult result_;
  StepSums sums_{state_, result_};
  std::optional<MetricsWriter> metrics_;
  std::optional<AuditLog> audit_;
  std::deque<EnqueuedStep> enqueued_;     // oldest first
  std::int64_t reading_ = 0;              // the step that an error names
  std::optional<BestMetric> metric_;      // none: evaluations are not compared
  StepEnding ending_ = StepEnding::done;  // of the latest update
  bool in_epoch_ = false;
  bool stopping_ = false;    // all ranks have agreed to
  bool grows_ = false;       // a rank waits to join
  const char* inside_ = "";  // for an error in a step: ", evaluating"
  std::int64_t saved_ = -1;  // the step of the latest checkpoint
  /// With redundancy: of the latest update, and of the one before until all ranks have the latest.
  std::vector<ShardCopies> copies_;
};

}  // namespace ringlet::train
