// A range of numbers as an option's value.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <concepts>
#include <string>

namespace ringlet::cli {

/// CLI::Range accepts NaN, and calls a word a value out of range.
template <class T>
CLI::Validator number_in(T low, T high) {
  const char* const kind = std::integral<T> ? "a whole number" : "a number";
  const auto check = [=](const std::string& text) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool fits = error == std::errc() && stop == end && low <= value && value <= high;
    return fits ? "" : fmt::format("expected {} from {} to {}, found '{}'", kind, low, high, text);
  };
  const char* const type = std::integral<T> ? "INT" : "FLOAT";
  return CLI::Validator(check, fmt::format("{} in [{} - {}]", type, low, high), "");
}

}  // namespace ringlet::cli
