// Where a run begins: in a folder that another has written, or behind a checkpoint.
#pragma once

#include <filesystem>
#include <functional>

#include "ringlet/comm/group.h"
#include "ringlet/train/checkpoint.h"

namespace ringlet::train {

/// The file of a run's metrics in its output folder.
inline constexpr const char* kMetrics = "metrics.jsonl";

/// Makes `output` if it is missing and rids it of what a run that was killed has left there, and of
/// rows behind `step` in the evaluators' tables: they are evaluated again. Rank 0 alone calls it.
void prepare_output(const std::filesystem::path& output, std::int64_t step);

/// The run that goes on: its state at its beginning, its steps and those of an epoch.
struct BegunRun {
  TrainerState state;
  std::int64_t total_steps = 0;
  std::function<std::size_t(std::size_t epoch)> steps_per_epoch;
};

/// The state in the checkpoint `from`, or the latest one in that folder, whose parameters and
/// moments go to `module` and `optimizer`. InputError where it is of other arguments than `begun`,
/// where its numbers contradict each other, or where ranks would take different ones; then nothing
/// has been changed.
TrainerState resume(const std::filesystem::path& from, const BegunRun& begun, nn::Module& module,
                    Optimizer& optimizer, const comm::Group& group);

}  // namespace ringlet::train
