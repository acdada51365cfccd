// Results of a training that tests compare.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ringlet/nn/module.h"
#include "ringlet/nn/sharding.h"
#include "ringlet/tests/message.h"

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

}  // namespace ringlet
