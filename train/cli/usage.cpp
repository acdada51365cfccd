#include "ringlet/train/cli/usage.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/nearest.h"

namespace ringlet::cli {
namespace {

bool is_option(const std::string& text) { return text.rfind("-", 0) == 0; }

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

/// The unknown argument, with the option or subcommand that was perhaps meant.
std::string describe_unknown(const CLI::App& app, const std::string& unknown) {
  std::vector<std::string> known;
  if (is_option(unknown)) {
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else {
    for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(subcommand->get_name());
  }
  const std::string name = unknown.substr(0, unknown.find('='));
  const std::vector<std::string> near = nearest(name, known);
  const char* what = is_option(name) ? "option" : known.empty() ? "argument" : "command";
  return fmt::format("unknown {} '{}'{}", what, name,
                     near.empty() ? fmt::format("; {} --help lists what there is", full_name(app))
                                  : fmt::format("; did you mean {}?", near.front()));
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::vector<const CLI::App*> commands{&app};  // each after the first is a subcommand of the last
  while (!commands.back()->get_subcommands().empty())
    commands.push_back(commands.back()->get_subcommands().front());
  const CLI::App& command = *commands.back();
  std::reverse(commands.begin(), commands.end());
  // A misspelt option leaves the one that was meant missing: the spelling is the better news.
  for (const CLI::App* parsed : commands) {
    const std::vector<std::string> unknown = parsed->remaining();
    const auto option = std::find_if(unknown.begin(), unknown.end(), is_option);
    if (!unknown.empty())
      return describe_unknown(*parsed, option == unknown.end() ? unknown.front() : *option);
  }
  if (command.get_require_subcommand_min() > 0)
    return fmt::format("expected a command; {} --help lists them", full_name(command));
  return error.what();
}

}  // namespace

bool parse(CLI::App& app, int argc, const char* const* argv) {
  // CLI11 would take the next argument for the value.
  for (const std::string argument : std::span(argv, static_cast<std::size_t>(argc)))
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1)
      fail_input(argument, ": expected a value after the =");
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::Success& answered) {
    app.exit(answered);
    return false;
  } catch (const CLI::ParseError& error) {
    fail_input(usage_error(app, error));
  }
}

}  // namespace ringlet::cli
