// A range of numbers as an option's value.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>

namespace ringlet::cli {

/// CLI::Range for numbers with a fraction. CLI::Range accepts NaN.
inline CLI::Validator number_in(double low, double high) {
  const auto check = [=](const std::string& text) {
    double value = 0;
    const bool fits =
        CLI::detail::lexical_cast(text, value) && low <= value && value <= high;  // false for NaN
    return fits ? "" : fmt::format("Value {} not in range {} to {}", text, low, high);
  };
  return CLI::Validator(check, fmt::format("FLOAT in [{} - {}]", low, high), "");
}

}  // namespace ringlet::cli
