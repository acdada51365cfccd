#include "ringlet/train/cli/config_file.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/nearest.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/file_kind.h"

namespace ringlet::cli {
namespace {

struct Setting {
  std::string name;
  std::string value;  // as on the command line
  int line = 0;       // from 1
};

int line_of(const toml::source_region& region) { return static_cast<int>(region.begin.line); }

/// As on the command line.
std::string text_of(const toml::node& node, const std::string& file) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  fail_input(file, ":", line_of(node.source()),
             ": expected a string in quotes, a number, true or false");
}

/// The settings of a file by line; an array is several of one name.
std::vector<Setting> read_settings(const std::string& file) {
  std::vector<Setting> settings;
  try {
    const std::string text = read_file(file);
    check_kind(text, file);
    const toml::table table = toml::parse(text);
    for (const auto& [key, node] : table) {
      const int line = line_of(key.source());
      if (const auto* array = node.as_array()) {
        if (array->empty()) fail_input(file, ":", line, ": expected a value in the array");
        for (const toml::node& element : *array)
          settings.push_back(
              {std::string(key.str()), text_of(element, file), line_of(element.source())});
      } else {
        settings.push_back({std::string(key.str()), text_of(node, file), line});
      }
    }
  } catch (const toml::parse_error& error) {
    fail_input(file, ":", line_of(error.source()), ": ", shown(error.description(), 200));
  }
  std::ranges::stable_sort(settings, {}, &Setting::line);
  return settings;
}

CLI::Option* find_option(CLI::App& command, const Setting& setting) {
  CLI::Option* const option = command.get_option_no_throw("--" + setting.name);
  if (option != nullptr && option->get_configurable()) return option;
  std::vector<std::string> known;
  for (const CLI::Option* one : command.get_options())
    if (one->get_configurable())
      known.insert(known.end(), one->get_lnames().begin(), one->get_lnames().end());
  const std::vector<std::string> near = nearest(setting.name, known);
  fail_input("unknown option ", quote(setting.name),
             near.empty() ? "" : "; did you mean " + near.front() + "?");
}

void set(CLI::Option& option, const Setting& setting) {
  const std::string& value = setting.value;
  const bool flag = option.get_expected_min() == 0;
  if (flag && value != "true" && value != "false")
    fail_input("--", setting.name, ": expected true or false");
  // A flag may have a name that means its opposite.
  option.add_result(flag ? option.get_flag_value(setting.name, value) : value);
  option.run_callback();
}

void apply(CLI::App& command, const std::string& file, ConfigPlaces& places) {
  std::set<const CLI::Option*> of_file;  // others were set on the command line, which counts first
  for (const Setting& setting : read_settings(file)) try {
      CLI::Option& option = *find_option(command, setting);
      if (option.count() == 0) of_file.insert(&option);
      if (!of_file.contains(&option)) continue;
      set(option, setting);
      places.emplace("--" + setting.name, str(file, ":", setting.line, ": "));
    } catch (const CLI::ParseError& error) {
      fail_input(file, ":", setting.line, ": ", error.what());
    } catch (const InputError& error) {
      fail_input(file, ":", setting.line, ": ", error.what());
    }
}

}  // namespace

std::shared_ptr<const ConfigPlaces> add_config(CLI::App& command) {
  const auto places = std::make_shared<ConfigPlaces>();
  command
      .add_option_function<std::string>(
          "--config",
          [&command, places](const std::string& file) { apply(command, file, *places); },
          "Options from a file, a line NAME = VALUE each; those given here count before it")
      ->configurable(false);
  return places;
}

}  // namespace ringlet::cli
