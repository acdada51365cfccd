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

/// An option, or an argument without a name.
struct Option {
  std::string names;  // "--lr", "-n,--ranks"; without dashes, "FILE", an argument
  std::string type;   // of a value, for --help; empty: a flag, true or false
  std::string usual;  // the value unless given, for --help
  std::string help;
  bool repeats = false;
  /// Throws InputError for a wrong value. `first`: the values before it, by default, are replaced.
  std::function<void(const std::string& value, bool first)> set = {};

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
  std::string name() const;
  bool is_named(const std::string& name) const;
};

/// The limits of a value: a Range, EnumNames, some texts, any text, or a function that parses it.
struct OneOf {
  std::vector<std::string_view> texts;
};
struct AnyText {};

namespace detail {

std::string parse(const AnyText&, const std::string& text);
std::string parse(const OneOf& limits, const std::string& text);
std::int64_t parse(Range<std::int64_t> limits, const std::string& text);
double parse(Range<double> limits, const std::string& text);
inline std::int64_t parse(Range<int> limits, const std::string& text) {
  return parse(Range<std::int64_t>{limits.low, limits.high}, text);
}
template <class Enum, std::size_t n>
Enum parse(const EnumNames<Enum, n>& limits, const std::string& text) {
  return limits.parse(text);
}
template <class Parse>
auto parse(const Parse& limits, const std::string& text) -> decltype(limits(text)) {
  return limits(text);
}

/// A function that parses nothing of the field's type only refuses texts.
template <class Value, class Limits>
Value value_of(const Limits& limits, const std::string& text) {
  using Parsed = decltype(parse(limits, text));
  if constexpr (std::is_convertible_v<Parsed, Value>)
    return static_cast<Value>(parse(limits, text));
  else
    return parse(limits, text), text;
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

/// A field of one value, with or without one, or of several.
template <class T>
struct Field {
  using Value = T;
  static void set(T& field, T value, bool) { field = std::move(value); }
};
template <class T>
struct Field<std::optional<T>> {
  using Value = T;
  static void set(std::optional<T>& field, T value, bool) { field = std::move(value); }
};
template <class T>
struct Field<std::vector<T>> {
  using Value = T;
  static void set(std::vector<T>& field, T value, bool first) {
    if (first) field.clear();
    field.push_back(std::move(value));
  }
};

}  // namespace detail

/// A command, or a program with commands. The fields of options must outlive the parsing.
class Command {
 public:
  Command(std::string name, std::string help) : name(std::move(name)), help(std::move(help)) {}

  Command& add_command(std::string name, std::string help) {
    return commands.emplace_back(std::move(name), std::move(help));
  }

  template <class T, class Limits>
  Option& add(std::string names, T& field, const Limits& limits, std::string help) {
    using Value = typename detail::Field<T>::Value;
    return options.emplace_back(
        Option{.names = std::move(names),
               .type = detail::type_of(limits),
               .usual = detail::usual_of(field, limits),
               .help = std::move(help),
               .repeats = std::same_as<T, std::vector<Value>>,
               .set = [&field, limits = limits](const std::string& text, bool first) {
                 detail::Field<T>::set(field, detail::value_of<Value>(limits, text), first);
               }});
  }
  template <class T, class Value = typename detail::Field<T>::Value,
            class = std::enable_if_t<std::is_convertible_v<std::string, Value>>>
  Option& add(std::string names, T& field, std::string help) {
    return add(std::move(names), field, AnyText(), std::move(help));
  }
  /// A flag, which inverts the field.
  Option& add(std::string names, bool& field, std::string help);

  /// Values between commas; it may be repeated. The rest is as of add().
  template <class T, class... Limits>
  Option& add_list(std::string names, std::vector<T>& values, const Limits&... limits) {
    Option& option = add(std::move(names), values, limits...);
    option.set = in_list(std::move(option.set));
    return option;
  }

  /// Null if there is none of this name.
  const Option* find(const std::string& name) const;
  /// The text of each option that was given, by its name.
  std::map<std::string, std::string> given() const;
  /// The command line that gives the same: "--lr=0.001" each.
  std::vector<std::string> words() const;

  std::string name, help, footer = {}, version = {};
  std::deque<Option> options = {};
  std::deque<Command> commands = {};
  bool takes_config = false;  // has --config
  std::function<void()> run = {};

 private:
  using Set = decltype(Option::set);
  static Set in_list(Set set_one);
};

/// Limits of the values true and false.
bool parse_bool(const std::string& text);
/// Bytes: "64K", "4MiB", "1.5 GB", in powers of 1024.
std::size_t parse_bytes(const std::string& text);

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
/// For a command that starts no ranks itself. InputError if a timeout was given and there are no
/// peers to wait for.
comm::GroupOptions launched_options(double timeout);

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
