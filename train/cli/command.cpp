#include "ringlet/train/cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "ringlet/comm/environment.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::cli {
namespace {

/// The names of an option: "-n" and "--ranks" of "-n,--ranks".
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> values;
  std::istringstream rest(list + ',');
  for (std::string value; std::getline(rest, value, ',');) values.push_back(value);
  return values;
}

/// A leading zero is refused: other programs read 010 as 8.
template <class T>
T parse_number_in(Range<T> range, const char* kind, const std::string& text) {
  const auto value = parse_number<T>(text);
  const bool octal =
      std::integral<T> && text.size() > 1 && text.find_first_not_of('-') == text.find('0');
  if (!value || octal || !(range.low <= *value && *value <= range.high))
    fail_input(
        fmt::format("expected {} from {} to {}, found '{}'", kind, range.low, range.high, text));
  return *value;
}

}  // namespace

std::string Option::name() const {
  const std::vector<std::string> all = split(names);
  return all.front().size() == 2 ? all.at(1) : all.front();
}

bool Option::is_named(const std::string& name) const {
  return std::ranges::count(split(names), name) > 0;
}

namespace detail {

std::string parse(const AnyText&, const std::string& text) { return text; }
std::string parse(const OneOf& limits, const std::string& text) {
  if (std::ranges::find(limits.texts, text) == limits.texts.end())
    fail_input("expected ", list_names(limits.texts), ", found ", quote(text));
  return text;
}
std::int64_t parse(Range<std::int64_t> limits, const std::string& text) {
  return parse_number_in(limits, "a whole number", text);
}
double parse(Range<double> limits, const std::string& text) {
  return parse_number_in(limits, "a number", text);
}

std::string list_of(std::span<const std::string_view> names) {
  return fmt::format("{{{}}}", fmt::join(names, ","));
}

}  // namespace detail

Option& Command::add(std::string names, bool& field, std::string help) {
  Option& option = add(std::move(names), field, parse_bool, std::move(help));
  option.type.clear();
  option.set = [&field, usual = field](const std::string& text, bool) {
    field = parse_bool(text) != usual;
  };
  return option;
}

const Option* Command::find(const std::string& name) const {
  const auto found =
      std::ranges::find_if(options, [&](const Option& one) { return one.is_named(name); });
  return found == options.end() ? nullptr : &*found;
}

std::map<std::string, std::string> Command::given() const {
  std::map<std::string, std::string> all;
  for (const Option& option : options)
    for (const Option::Value& one : option.given) {
      std::string& text = all[option.name()];
      text += (text.empty() ? "" : ",") + one.value;
    }
  return all;
}

std::vector<std::string> Command::words() const {
  std::vector<std::string> all;
  for (const Option& option : options)
    for (const Option::Value& one : option.given) all.push_back(option.name() + '=' + one.value);
  return all;
}

Command::Set Command::in_list(Set set_one) {
  return [set_one = std::move(set_one)](const std::string& list, bool first) {
    for (const std::string& value : split(list)) {
      if (value.empty()) fail_input("expected no empty value, found ", quote(list));
      set_one(value, std::exchange(first, false));
    }
  };
}

bool parse_bool(const std::string& text) {
  if (text != "true" && text != "false") fail_input("expected true or false");
  return text == "true";
}

void add_seed(Command& command, std::uint64_t& seed, const std::string& help) {
  command.add("--seed", seed, Range{std::int64_t{0}, std::numeric_limits<std::int64_t>::max()},
              help);
}

void add_timeout(Command& command, double& timeout) {
  command.add("--timeout", timeout, Range{0.1, 86400.0},
              "Seconds that a rank waits for the others in a collective (300)");
}

comm::GroupOptions with_timeout(comm::GroupOptions group, double timeout) {
  if (timeout > 0) group.timeout = comm::Timeout(static_cast<std::int64_t>(timeout * 1000));
  return group;
}

comm::GroupOptions launched_options(double timeout) {
  if (timeout > 0 && !comm::Environment::read().launched)
    fail_input("--timeout ", timeout, ": no launcher started this: there is no rank to wait for");
  return with_timeout({}, timeout);
}

std::size_t parse_bytes(const std::string& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789.e"), text.size());
  const auto number = parse_number<double>(std::string_view(text).substr(0, end));
  std::string unit = text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (unit.ends_with('b')) unit.pop_back();
  if (unit.size() == 2 && unit[1] == 'i') unit.pop_back();
  constexpr std::string_view kUnits = "kmgtpe";
  const std::size_t power = unit.size() == 1 ? kUnits.find(unit[0]) + 1 : 0;  // npos + 1 is 0
  const double bytes = number.value_or(-1) * std::pow(1024.0, static_cast<double>(power));
  if (!(bytes >= 0 && bytes < 9e18) || (power == 0 && !unit.empty()))
    fail_input("expected bytes, perhaps in KiB, MiB or GiB, found ", quote(text));
  return static_cast<std::size_t>(bytes);
}

}  // namespace ringlet::cli
