#include "ringlet/train/cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <sstream>

#include "ringlet/core/base/quote.h"

namespace ringlet::cli {
namespace {

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

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream rest(list + ',');
  for (std::string part; std::getline(rest, part, ',');) parts.push_back(part);
  return parts;
}

const std::string& OneOf::operator()(const std::string& text) const {
  if (std::ranges::find(texts, text) == texts.end())
    fail_input("expected ", list_names(texts), ", found ", quote(text));
  return text;
}

bool parse_bool(const std::string& text) {
  if (text != "true" && text != "false") fail_input("expected true or false, found ", quote(text));
  return text == "true";
}

std::size_t parse_bytes(const std::string& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789.e"), text.size());
  const auto number = parse_number<double>(std::string_view(text).substr(0, end));
  std::string unit = text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (unit == "b" || (unit.size() == 3 && unit.ends_with("ib"))) unit.resize(unit.size() / 2);
  constexpr std::string_view kUnits = "kmgtpe";
  const std::size_t power = unit.size() == 1 ? kUnits.find(unit[0]) + 1 : 0;  // npos + 1 is 0
  const double bytes = number.value_or(-1) * std::pow(1024.0, static_cast<double>(power));
  if (!(bytes >= 0 && bytes < 9e18) || (power == 0 && !unit.empty()))
    fail_input("expected bytes, perhaps in KiB, MiB or GiB, found ", quote(text));
  return static_cast<std::size_t>(bytes);
}

std::int64_t parse_in(Range<std::int64_t> range, const std::string& text) {
  return parse_number_in(range, "a whole number", text);
}
double parse_in(Range<double> range, const std::string& text) {
  return parse_number_in(range, "a number", text);
}

std::string detail::list_of(std::span<const std::string_view> names) {
  return fmt::format("{{{}}}", fmt::join(names, ","));
}

const std::string& Option::name() const {
  return names.front().size() == 2 ? names.at(1) : names.front();
}

Option& Command::add(const std::string& names, bool& field, std::string help) {
  Option& option = add(names, field, parse_bool, std::move(help));
  if (field && !names.starts_with("--no-")) return option;
  option.type.clear();
  option.set = [&field, usual = field](const std::string& text, bool) {
    field = parse_bool(text) != usual;
  };
  return option;
}

Option& Command::add(Option option) { return options.emplace_back(std::move(option)); }

void Command::add_config() {
  add("--config", config,
      "Options from a file, a line NAME = VALUE each; those given here count before it");
}

Option* Command::find(std::string_view name) {
  const auto found = std::ranges::find_if(
      options, [&](const Option& one) { return std::ranges::count(one.names, name) > 0; });
  return found == options.end() ? nullptr : &*found;
}

std::multimap<std::string, std::string> Command::given() const {
  std::multimap<std::string, std::string> all;
  for (const Option& option : options)
    for (const Option::Value& one : option.given) all.emplace(option.name(), one.value);
  return all;
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

void run_launched(double timeout, const std::function<void(const comm::Group&)>& rank_main) {
  if (timeout > 0 && !comm::Environment::read().launched)
    fail_input("--timeout ", timeout, ": no launcher started this: there is no rank to wait for");
  comm::run_from_env(rank_main, with_timeout({}, timeout));
}

}  // namespace ringlet::cli
