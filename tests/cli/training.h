// Arguments of `ringlet` for a short training of the tiny model on generated data.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/files.h"

inline Words tiny_training(const std::filesystem::path& output, int steps, const Words& more = {}) {
  return str("train --model tiny --batch 8 --max-steps ", steps, " --no-progress --output ",
             output.string()) +
         more;
}

/// The same without an evaluation, which takes several times as long as a few steps.
inline Words only_steps(const std::filesystem::path& output, int steps, const Words& more = {}) {
  return tiny_training(output, steps, "--eval-strategy no" + more);
}

/// A folder with 300 labelled pairs and 100 scored ones; 30 and 20 to evaluate on.
inline const std::string& short_data() {
  static const TemporaryFolder folder;
  static const std::string data = [] {
    const std::string made = (folder / "data").string();
    REQUIRE_EQ(run(str("make-data ", made, " --rows 300")).code, 0);
    return made;
  }();
  return data;
}

/// The training on those, evaluated on the scored ones: little besides the steps.
inline Words short_training(const std::filesystem::path& output, int steps,
                            const Words& more = {}) {
  const std::string& data = short_data();
  return tiny_training(output, steps,
                       str("--data ", data, "/nli-train.jsonl --data ", data,
                           "/sts-train.csv --eval ", data, "/sts-dev.csv ") +
                           more);
}

/// The bytes of the weights that it wrote.
inline std::string weights_in(const std::filesystem::path& output) {
  return ringlet::read_file(output / "model/model.safetensors");
}

/// The metrics of each line that has `key`.
inline std::vector<double> column(const std::filesystem::path& metrics, const std::string& key) {
  std::vector<double> values;
  std::istringstream lines(ringlet::read_file(metrics));
  for (std::string line; std::getline(lines, line);) {
    const auto json = ringlet::Json::parse(line);
    if (json.contains(key)) values.push_back(json[key].number());
  }
  return values;
}
