// Checkpoints: everything that training needs to continue with the same bits.
//
//   checkpoint-120/model.safetensors      trained parameters and buffers by name
//                  optimizer.safetensors  the optimizer's moments, "PARAMETER/exp_avg"
//                  trainer_state.json     the TrainerState, each parameter's updates, and a
//                                         digest of the parameters that are not trained
//                  SHA256SUMS             the files' digests, checked when they are read
//
// They do not depend on the number of processes or on the memory layout.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "ringlet/nn/module.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train {

/// Writes the folder `target`, whole or not at all; an older one there is replaced. Under a
/// strategy over several ranks every rank calls it. Each writes the data that it holds (its share
/// of replicated data) to the same files, on a file system that all ranks see. All return when the
/// folder is complete. A write error on one rank is InputError on all.
void save_checkpoint(const std::filesystem::path& target, const nn::Module& module,
                     Optimizer& optimizer, const TrainerState& state);

/// The state alone; InputError when the file is missing, damaged or of another checkpoint.
TrainerState read_trainer_state(const std::filesystem::path& folder);

/// Reads a folder of save_checkpoint. Missing or unknown parameters, other shapes or dtypes, and
/// files with another digest are InputError, and then nothing has been changed. So are values of
/// parameters that are not trained, other than those of the run that saved. Every rank checks whole
/// files and loads its own part.
TrainerState load_checkpoint(const std::filesystem::path& folder, nn::Module& module,
                             Optimizer& optimizer);

/// Reads only the parameters and buffers; errors as above.
void load_checkpoint_model(const std::filesystem::path& folder, nn::Module& module);

/// "checkpoint-STEP" below `output`.
std::filesystem::path checkpoint_path(const std::filesystem::path& output, std::int64_t step);
/// The one of the largest step, if there is any. A folder without trainer_state.json is no
/// checkpoint: save_checkpoint leaves none.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& output);
/// Folders that have the name of a later checkpoint but are none.
std::vector<std::filesystem::path> later_strays(const std::filesystem::path& output);
/// Removes the unfinished checkpoints of a killed run from `output`. Only rank 0 calls it, before
/// anything is saved there.
void remove_unfinished_checkpoints(const std::filesystem::path& output);
/// Removes the earliest until `keep` are left, but none of the steps `kept`; 0 keeps all.
/// InputError when one cannot be removed.
void rotate_checkpoints(const std::filesystem::path& output, std::size_t keep,
                        const std::set<std::int64_t>& kept);

}  // namespace ringlet::train
