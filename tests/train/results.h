// Results of a training that tests compare.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/nn/module.h"
#include "ringlet/nn/sharding.h"

namespace ringlet {

/// The values of all parameters, concatenated; collective if they are sharded.
inline std::vector<float> parameter_values(const nn::Module& module) {
  std::vector<float> all;
  nn::WholeParameters whole(module);
  for (const nn::Parameter& parameter : module.parameters())
    for (const float value : whole(parameter).to_vector()) all.push_back(value);
  return all;
}

/// metrics.jsonl without the fields that differ between runs.
inline std::vector<std::string> loss_lines(const std::filesystem::path& output) {
  std::ifstream file(output / "metrics.jsonl");
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);)
    all.push_back(line.substr(0, line.find(",\"pairs_per_s\"")));
  return all;
}

/// The message of the error that `call` throws; empty if it throws none.
template <class Expected = Error>
std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

}  // namespace ringlet
