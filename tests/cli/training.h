// Arguments of `ringlet` for a short training of the tiny model on the project's data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/core/io/file.h"

inline std::vector<std::string> tiny_training(const std::filesystem::path& output, int steps,
                                              const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"train",
                                     "--model",
                                     "tiny",
                                     "--batch",
                                     "8",
                                     "--max-steps",
                                     std::to_string(steps),
                                     "--no-progress",
                                     "--output",
                                     output.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The bytes of the weights that it wrote.
inline std::string weights_in(const std::filesystem::path& output) {
  return ringlet::read_file(output / "model/model.safetensors");
}
