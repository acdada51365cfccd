// The values of command line options, and their checks.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "ringlet/comm/environment.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/names.h"
#include "ringlet/core/base/number.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::cli {

/// CLI::Range accepts NaN, and calls a word a value out of range. CLI11 would read 010 as 8.
template <class T>
CLI::Validator number_in(T low, T high) {
  const char* const kind = std::integral<T> ? "a whole number" : "a number";
  const auto check = [=](const std::string& text) {
    const auto value = parse_number<T>(text);
    const bool octal =
        std::integral<T> && text.size() > 1 && text.find_first_not_of('-') == text.find('0');
    const bool fits = value && !octal && low <= *value && *value <= high;
    return fits ? "" : fmt::format("expected {} from {} to {}, found '{}'", kind, low, high, text);
  };
  const char* const type = std::integral<T> ? "INT" : "FLOAT";
  return CLI::Validator(check, fmt::format("{} in [{} - {}]", type, low, high), "");
}

/// An option with a number from `low` to `high`.
template <class T, class Bound>
CLI::Option* add_number(CLI::App& command, const std::string& option, T& value, Bound low,
                        Bound high, const std::string& help) {
  return command.add_option(option, value, help)->check(number_in(low, high));
}

/// Returns parse(). An InputError from it is prefixed with `option`.
template <class Parse>
auto of_option(const std::string& option, Parse&& parse) {
  try {
    return parse();
  } catch (const InputError& error) {
    fail_input(option, ": ", error.what());
  }
}

/// A check of an option's value by the function that parses it.
template <class Parse>
CLI::Validator parsed_by(Parse parse) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        try {
          parse(text);
          return "";
        } catch (const InputError& error) {
          return error.what();
        }
      },
      "", "");
}

/// An option with a value that has a name; `value` may be optional. `value` and `names` must
/// outlive the parsing.
template <class Value, class Enum, std::size_t n>
void add_choice(CLI::App& command, const std::string& option, Value& value,
                const Names<Enum, n>& names, const std::string& help) {
  CLI::Option* const added =
      command
          .add_option_function<std::string>(
              option, [&value, &names](const std::string& text) { value = names.parse(text); },
              help)
          ->check(CLI::IsMember(std::vector<std::string>(names.all.begin(), names.all.end())));
  if constexpr (std::same_as<Value, Enum>) added->default_str(std::string(names(value)));
}

/// The values between the commas of a list, also empty ones, which CLI11's delimiter drops.
inline std::vector<std::string> values_of(const std::string& list) {
  std::vector<std::string> values;
  std::istringstream rest(list + ',');
  for (std::string value; std::getline(rest, value, ',');) values.push_back(value);
  return values;
}

/// An option with values between commas; it may be repeated. `check` is one value's. `values` must
/// outlive the parsing.
template <class T>
CLI::Option* add_list(CLI::App& command, const std::string& option, std::vector<T>& values,
                      const std::string& help, const CLI::Validator& check = {}) {
  const auto set = [&values](const std::vector<std::string>& lists) {
    values.clear();
    for (const std::string& list : lists)
      for (const std::string& value : values_of(list))
        CLI::detail::lexical_cast(value, values.emplace_back());
  };
  const auto check_all = [check](const std::string& list) {
    std::string error;
    for (const std::string& value : values_of(list))
      if (error.empty())
        error = value.empty() ? "expected no empty value, found " + quote(list) : check(value);
    return error;
  };
  return command.add_option_function<std::vector<std::string>>(option, set, help)
      ->check(CLI::Validator(check_all, check.get_description()))
      ->type_name(CLI::detail::type_name<T>())
      ->allow_extra_args(false);  // CLI11 would also drop the brackets of [a]
}

/// --seed, the same for every command. A negative one would wrap around, so a seed is in 0 to
/// 2^63 - 1.
inline void add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help) {
  add_number(command, "--seed", seed, std::int64_t{0}, std::numeric_limits<std::int64_t>::max(),
             help)
      ->capture_default_str();
}

/// --timeout, for every command with ranks that wait for each other. Seconds; `timeout` stays 0
/// where none are given.
inline void add_timeout(CLI::App& command, double& timeout) {
  add_number(command, "--timeout", timeout, 0.1, 86400.0,
             "Seconds that a rank waits for the others in a collective (300)");
}

/// With GroupOptions' own where none were given.
inline comm::GroupOptions with_timeout(comm::GroupOptions group, double timeout) {
  if (timeout > 0) group.timeout = comm::Timeout(static_cast<std::int64_t>(timeout * 1000));
  return group;
}

/// For a command that starts no ranks itself. InputError if a timeout was given and there are no
/// peers to wait for.
inline comm::GroupOptions launched_options(double timeout) {
  if (timeout > 0 && !comm::Environment::read().launched)
    fail_input("--timeout ", timeout, ": no launcher started this: there is no rank to wait for");
  return with_timeout({}, timeout);
}

}  // namespace ringlet::cli
