// Callbacks of a Trainer. Each adds any of these functions; those of one event are called in the
// order of add_callback(). The library itself prints nothing.
//
//   on_train_begin
//     on_epoch_begin
//       on_step_end                     every step
//       on_log                          before the figures of steps or an evaluation are written
//       on_evaluate                     after the evaluation was logged
//       on_save                         after the checkpoint is complete
//     on_epoch_end
//   on_train_end
//
// All ranks call them. An error of a callback ends the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "ringlet/comm/group.h"
#include "ringlet/train/report/metrics.h"
#include "ringlet/train/step/task.h"

namespace ringlet::train {

struct TimelineFiles;
struct TrainingArguments;
struct TrainingResult;

/// Over all ranks together, the same on each.
struct StepReport {
  std::int64_t step = 0;  // done, counted from 1
  std::int64_t total_steps = 0;
  double epoch = 0;
  StepResult result;
  double lr = 0;
  double grad_norm = 0;  // before clipping
};

/// A line of metrics.jsonl.
struct LogReport {
  std::int64_t step = 0;
  double epoch = 0;
  Metrics metrics = {};
};

struct EvaluationReport {
  EvaluationPoint at;
  Metrics metrics = {};
  /// By how much metric_for_best_model is better than the best one before: more than 0 is better,
  /// infinity the first one. None: no metric is compared.
  std::optional<double> improvement = {};
};

/// Counts that a callback keeps in checkpoints, by names that are unique among the callbacks.
using CallbackState = std::map<std::string, std::int64_t>;

struct TrainerCallback {
  std::function<void(const TrainingArguments&)> on_train_begin = {};
  std::function<void(std::size_t epoch)> on_epoch_begin = {};  // counted from 1
  /// On a GPU, between evaluations and checkpoints, each step is reported while the next one is in
  /// flight.
  std::function<void(const StepReport&)> on_step_end = {};
  std::function<void(const LogReport&)> on_log = {};
  std::function<void(const EvaluationReport&)> on_evaluate = {};
  std::function<void(const std::filesystem::path& checkpoint)> on_save = {};
  std::function<void(std::size_t epoch)> on_epoch_end = {};  // also of one that a stop cuts short
  std::function<void(const TrainingResult&)> on_train_end = {};
  /// One line about anything that the run does differently than requested.
  std::function<void(const std::string&)> on_note = {};

  /// Called at each checkpoint; under redundancy in each step.
  std::function<CallbackState()> state = {};
  /// With the counts of all callbacks, before on_train_begin of a run that resumes.
  std::function<void(const CallbackState&)> load_state = {};
};

/// Steps in a timeline; on a GPU one more, which is in flight when the last one is reported.
inline constexpr int kTimelineSteps = 8;
/// Records the run's first steps on every rank, and what is between them. Rank 0 then writes
/// `files` (train/report/timeline.h), of a shorter run at its end. Collectives are recorded if the
/// group was made with Timeline::of_collectives(). No recorded step is replayed as a graph.
/// `title`: of this rank's timeline, before its number; the ranks' may differ.
///
///   trainer.add_callback(record_timeline("timeline.json", model.device(), group, "ddp"));
TrainerCallback record_timeline(TimelineFiles files, Device device, comm::Group group,
                                std::string title = {});

}  // namespace ringlet::train
