// The file trainer_state.json of a checkpoint.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train::checkpoint {

using Json = nlohmann::ordered_json;

inline constexpr int kFormat = 7;
inline constexpr const char* kState = "trainer_state.json";

Json to_json(const TrainerState& state, const std::vector<Optimizer::ParameterState>& parameters);
TrainerState from_json(const Json& json, const std::filesystem::path& file);
/// How often a parameter was updated; InputError if more often than `steps`.
std::int64_t updates_from_json(const Json& json, const std::filesystem::path& file,
                               const std::string& parameter, std::int64_t steps);

/// Calls read(json, path) for trainer_state.json; the path is for messages.
template <class Read>
auto read_json(const std::filesystem::path& folder, Read&& read) {
  const std::filesystem::path path = folder / kState;
  const std::string text = read_file(path);
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat)
      fail_input(path.string(), ": expected format ", kFormat, ", found ",
                 shown(json.at("format").dump()));
    return read(json, path);
  } catch (const Json::exception& error) {
    fail_input(path.string(), ": not a trainer's state: ", shown(error.what(), 200));
  }
}

}  // namespace ringlet::train::checkpoint
