// Weights of a model folder, of its transformer or of another module.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/nn/module.h"

namespace ringlet::models {

/// Points the parameters of `module` at the mapped weights of model.safetensors (or its shards).
/// Names may have their architecture as a prefix ("bert."); LayerNorm.gamma and beta are weight and
/// bias; any floating dtype is read. `notes` gets the key of a dtype other than f32 in which
/// Python would compute: config.json's, or else the weights'. Returns the unused names. InputError
/// when a parameter is missing or has another shape, or when there are only pickled weights (with
/// the line that converts them).
std::vector<std::string> load_weights(const std::filesystem::path& folder, nn::Module& module,
                                      std::vector<std::string>* notes = nullptr);

/// Writes model.safetensors with the parameters of `module`, one at a time. A parameter that is
/// merged into another (nn::Lora) is written as a part of it. Under a strategy over several
/// ranks all call it and rank 0 writes.
void save_weights(const std::filesystem::path& folder, const nn::Module& module);

}  // namespace ringlet::models
