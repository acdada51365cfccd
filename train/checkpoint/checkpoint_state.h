// The file trainer_state.json of a checkpoint.
#pragma once

#include <filesystem>
#include <vector>

#include "ringlet/core/io/json_node.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train::checkpoint {

inline constexpr const char* kState = "trainer_state.json";

/// `frozen`: a digest of the parameters that are not trained; empty: there are none.
Json to_json(const TrainerState& state, const std::vector<Optimizer::ParameterState>& parameters,
             const std::string& frozen);
/// trainer_state.json of a checkpoint's folder; InputError for another format.
JsonNode open_state(const std::filesystem::path& folder);
TrainerState from_json(const JsonNode& json);
/// How often a parameter was updated; InputError if more often than `steps`.
std::int64_t updates_from_json(const JsonNode& json, const std::string& parameter,
                               std::int64_t steps);

}  // namespace ringlet::train::checkpoint
