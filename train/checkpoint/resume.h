// Where a run begins: in a folder that an earlier run has written, or after a checkpoint.
#pragma once

#include <filesystem>

#include "ringlet/comm/group.h"
#include "ringlet/train/checkpoint/checkpoint.h"

namespace ringlet::train {

/// The file of a run's metrics in its output folder.
inline constexpr const char* kMetrics = "metrics.jsonl";

/// Creates `output` if it is missing. Removes the unfinished files of a killed run, and the rows
/// after `step` in the evaluators' tables: they are evaluated again. Only rank 0 calls it.
void prepare_output(const std::filesystem::path& output, std::int64_t step);

/// InputError that names the checkpoint and all arguments that differ.
void check_same_arguments(const std::filesystem::path& checkpoint, const UpdateArguments& saved,
                          const UpdateArguments& wanted);

/// The run that resumes.
struct BegunRun {
  UpdateArguments arguments;
  bool loads_best = false;  // load_best_model_at_end
  std::filesystem::path output_dir = {};
};

/// Loads parameters and moments into `module` and `optimizer`, and returns the state. `from` is a
/// checkpoint, or a folder of which the latest one is used. InputError if it has other arguments
/// than `begun`, or if ranks would take different ones. So is a checkpoint of the best model that
/// is needed and missing. Then nothing has been changed.
TrainerState resume(const std::filesystem::path& from, const BegunRun& begun, nn::Module& module,
                    Optimizer& optimizer, const comm::Group& group);

}  // namespace ringlet::train
