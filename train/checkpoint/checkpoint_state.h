// A checkpoint's trainer_state.json, and SHA256SUMS, which `sha256sum -c` checks, too.
#pragma once

#include <filesystem>
#include <vector>

#include "ringlet/core/io/json_node.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train::checkpoint {

inline constexpr const char *kState = "trainer_state.json", *kDigests = "SHA256SUMS";

/// `frozen`: a digest of the parameters that are not trained; empty: there are none.
Json to_json(const TrainerState& state, const std::vector<Optimizer::ParameterState>& parameters,
             const std::string& frozen);
/// trainer_state.json of a checkpoint's folder; InputError for another digest or format.
JsonNode open_state(const std::filesystem::path& folder);
TrainerState from_json(const JsonNode& json);
/// How often a parameter was updated.
std::int64_t updates_from_json(const JsonNode& json, const std::string& parameter);

/// Writes kDigests for the other files in `folder`.
void write_digests(const std::filesystem::path& folder);
/// InputError unless kDigests lists this digest for the file `name` of `folder`.
void check_digest(const std::filesystem::path& folder, const std::string& name);

}  // namespace ringlet::train::checkpoint
