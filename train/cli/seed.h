// --seed, the same for every command.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

#include "ringlet/train/cli/number_in.h"

namespace ringlet::cli {

/// A negative one would wrap around, so a seed is in 0 to 2^63 - 1.
inline void add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help) {
  command.add_option("--seed", seed, help)
      ->check(number_in(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
}

}  // namespace ringlet::cli
