#include "ringlet/train/cli/config_file.h"

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/nearest.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/train/cli/settings_reader.h"

namespace ringlet::cli {
namespace {

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

void apply(CLI::App& command, const std::string& file) {
  std::set<const CLI::Option*> of_file;  // others were set on the command line, which counts first
  for (const Setting& setting : read_settings(file)) try {
      CLI::Option& option = *find_option(command, setting);
      if (option.count() == 0) of_file.insert(&option);
      if (of_file.contains(&option)) set(option, setting);
    } catch (const CLI::ParseError& error) {
      fail_input(file, ":", setting.line, ": ", error.what());
    } catch (const InputError& error) {
      fail_input(file, ":", setting.line, ": ", error.what());
    }
}

}  // namespace

void add_config(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--config", [&command](const std::string& file) { apply(command, file); },
          "Options from a file, a line NAME = VALUE each; those given here count before it")
      ->configurable(false);
}

}  // namespace ringlet::cli
