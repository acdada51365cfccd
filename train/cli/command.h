// A program's commands and their options: what a command line, a file of options or Python may set.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/environment.h"
#include "ringlet/core/base/names.h"
#include "ringlet/core/base/setting.h"

namespace ringlet::cli {

/// An option, or an argument: a value without a name before it.
struct Option {
  std::vector<std::string> names;  // "-n", "--ranks"; without dashes, "FILE", of an argument
  std::string type;                // of a value, for --help; empty: a flag, true or false
  std::string usual;               // the value unless given, for --help
  std::string help;
  bool repeats = false;  // an argument that repeats has all words from the first one on
  /// Throws InputError for a wrong value. `first`: the values before it, by default, are replaced.
  std::function<void(const std::string& value, bool first)> set = {};

  bool in_commas = false;  // one word may have several values
  bool required = false;
  std::vector<std::string> excludes = {};  // options that must not be given with it
  std::string needs = {};                  // an option that must be given with it
  std::string setting = {};                // the field, as SettingError names it: "learning_rate"

  struct Value {
    std::string value;
    std::string place = {};  // in a file: "run.toml:3: "; empty: on the command line
  };
  std::vector<Value> given = {};

  /// The first long name: "--ranks"; of an argument its own.
  const std::string& name() const;
};

/// The parts of a text between commas.
std::vector<std::string> split(const std::string& list);

/// The limits of a value: a Range, EnumNames, or a function that parses it, or only refuses texts.
struct OneOf {
  std::vector<std::string_view> texts;
  const std::string& operator()(const std::string& text) const;
};
/// true or false
bool parse_bool(const std::string& text);
/// Bytes: "64K", "4MiB", "1.5 G", in powers of 1024; "MB" may mean 10^6 and is refused.
std::size_t parse_bytes(const std::string& text);
std::int64_t parse_in(Range<std::int64_t> range, const std::string& text);
double parse_in(Range<double> range, const std::string& text);

namespace detail {

template <class Value, class Limits>
Value value_of(const Limits& limits, const std::string& text) {
  if constexpr (requires { limits.low; }) {
    using Number = std::conditional_t<std::integral<decltype(limits.low)>, std::int64_t, double>;
    return static_cast<Value>(parse_in(Range<Number>{limits.low, limits.high}, text));
  } else if constexpr (requires { limits.parse(text); }) {
    return limits.parse(text);
  } else if constexpr (std::is_convertible_v<decltype(limits(text)), Value>) {
    return limits(text);
  } else {
    limits(text);
    return text;
  }
}

/// "{f32,bf16}"
std::string list_of(std::span<const std::string_view> names);

template <class Limits>
std::string type_of(const Limits& limits) {
  if constexpr (requires { limits.low; })
    return str(std::integral<decltype(limits.low)> ? "INT" : "FLOAT", " in [", limits.low, " - ",
               limits.high, "]");
  else if constexpr (requires { limits.texts; })
    return list_of(limits.texts);
  else if constexpr (requires { limits.all; })
    return list_of(limits.all);
  else
    return "TEXT";
}

/// The value by default; empty if it means that there is none.
template <class T, class Limits>
std::string usual_of(const T& value, const Limits& limits) {
  if constexpr (requires { limits.all[0] == limits(value); })
    return std::string(limits(value));
  else if constexpr (requires { limits.low <= static_cast<decltype(limits.low)>(value); })
    return limits.low <= static_cast<decltype(limits.low)>(value) &&
                   static_cast<decltype(limits.low)>(value) <= limits.high
               ? str(value)
               : "";
  else if constexpr (std::is_convertible_v<T, std::filesystem::path>)
    return std::filesystem::path(value).string();
  else
    return "";
}

/// The value of a field that has one, may have one, or has several.
template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};
template <class T>
struct ValueOf<std::vector<T>> {
  using Type = T;
};

}  // namespace detail

/// A command, or a program with commands. The fields of options must outlive the parsing.
struct Command {
  Command(std::string name, std::string help) : name(std::move(name)), help(std::move(help)) {}

  Command& add_command(std::string name, std::string help) {
    return commands.emplace_back(std::move(name), std::move(help));
  }

  /// `names`: "-n,--ranks".
  template <class T, class Limits>
  Option& add(const std::string& names, T& field, const Limits& limits, std::string help) {
    using Value = typename detail::ValueOf<T>::Type;
    constexpr bool repeats = std::same_as<T, std::vector<Value>>;
    return add({.names = split(names),
                .type = detail::type_of(limits),
                .usual = detail::usual_of(field, limits),
                .help = std::move(help),
                .repeats = repeats,
                .set = [&field, limits = limits](const std::string& text, bool first) {
                  if constexpr (repeats) {
                    if (first) field.clear();
                    field.push_back(detail::value_of<Value>(limits, text));
                  } else {
                    field = detail::value_of<Value>(limits, text);
                  }
                }});
  }
  /// Any text.
  template <class T>
  requires std::convertible_to<std::string, typename detail::ValueOf<T>::Type> Option& add(
      const std::string& names, T& field, std::string help) {
    return add(names, field, std::identity(), std::move(help));
  }
  /// A flag, which inverts a false field, or with the name --no-… a true one. Any other true field
  /// takes true or false.
  Option& add(const std::string& names, bool& field, std::string help);
  /// Values between commas; it may be repeated. The rest is as of add().
  template <class T, class... Limits>
  Option& add_list(const std::string& names, std::vector<T>& values, const Limits&... limits) {
    Option& option = add(names, values, limits...);
    option.in_commas = true;
    return option;
  }
  /// --config FILE: options from a file. Those on the command line count before them.
  void add_config();

  /// Null if there is none of this name.
  Option* find(std::string_view name);
  /// The texts of each option that was given, by its name.
  std::multimap<std::string, std::string> given() const;

  std::string name, help, footer = {}, version = {};
  std::deque<Option> options = {};
  std::deque<Command> commands = {};
  std::string config = {};  // a file; empty: none
  std::function<void()> run = {};

 private:
  Option& add(Option option);
};

/// Parses the arguments, sets the values, and runs the command that they name. False if --help or
/// --version was requested and answered. InputError for invalid options: the unknown option,
/// argument or command, with the one that was perhaps meant, and for wrong values. An error of the
/// command about an option has its name, and its place in a file.
bool parse(Command& program, int argc, const char* const* argv);
/// Runs `body`, a part of the command. Its SettingError becomes InputError that names the option.
void name_options(const Command& command, const std::function<void()>& body);

/// --seed, the same for every command. A negative one would wrap around, so a seed is in 0 to
/// 2^63 - 1.
void add_seed(Command& command, std::uint64_t& seed, const std::string& help);

/// --timeout, for every command with ranks that wait for each other. Seconds; `timeout` stays 0
/// where none are given.
void add_timeout(Command& command, double& timeout);
/// With GroupOptions' own where none were given.
comm::GroupOptions with_timeout(comm::GroupOptions group, double timeout);
/// Runs `rank_main` on the ranks that a launcher started, or on one. InputError if a timeout was
/// given and there are no peers to wait for.
void run_launched(double timeout, const std::function<void(const comm::Group&)>& rank_main);

/// Returns parse(). An InputError from it is prefixed with `option`.
template <class Parse>
auto of_option(const std::string& option, Parse&& parse) {
  try {
    return parse();
  } catch (const InputError& error) {
    fail_input(option, ": ", error.what());
  }
}

}  // namespace ringlet::cli
