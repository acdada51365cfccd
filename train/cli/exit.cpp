#include "ringlet/train/cli/exit.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/nearest.h"

namespace ringlet::cli {
namespace {

/// The subcommand chosen, or the program itself.
const CLI::App& chosen(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : *subcommands.front();
}

/// What could not be understood, with the option or subcommand that was perhaps meant.
std::string describe_unknown(const CLI::App& app, const std::string& unknown) {
  std::vector<std::string> known;
  if (unknown.rfind("-", 0) == 0) {
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else {
    for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(subcommand->get_name());
  }
  const std::string name = unknown.substr(0, unknown.find('='));
  const std::string near = nearest(name, known);
  const char* what = name.rfind("-", 0) == 0 ? "option" : known.empty() ? "argument" : "command";
  return fmt::format(
      "unknown {} '{}'{}", what, name,
      near.empty() ? fmt::format("; {} --help lists what there is",
                                 app.get_parent() ? "ringlet " + app.get_name() : app.get_name())
                   : fmt::format("; did you mean {}?", near));
}

int bad_option(const CLI::App& app, const CLI::ParseError& error) {
  // A misspelt option leaves the one that was meant missing: the spelling is the better news.
  const CLI::App& command = chosen(app);
  for (const CLI::App* parsed : {&command, &app}) {
    const std::vector<std::string> unknown = parsed->remaining();
    const auto option = std::find_if(unknown.begin(), unknown.end(), [](const std::string& text) {
      return text.rfind("-", 0) == 0;
    });
    if (!unknown.empty())
      return report("ringlet",
                    describe_unknown(*parsed, option == unknown.end() ? unknown.front() : *option),
                    kBadInput);
  }
  if (&command == &app)
    return report("ringlet", "expected a command; ringlet --help lists them", kBadInput);
  return report("ringlet", error.what(), kBadInput);
}

/// What was printed must have arrived: a full disk behind a redirection is no success.
void check_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    fail_input("standard output: cannot write");
}

}  // namespace

int run(CLI::App& app, int argc, char** argv) {
  return exit_code("ringlet", [&] {
    try {
      app.parse(argc, argv);
      check_output();
      return 0;
    } catch (const Exit& exit) {
      return exit.code;
    } catch (const CLI::Success& help) {
      return app.exit(help);
    } catch (const CLI::ParseError& error) {
      return bad_option(app, error);
    }
  });
}

}  // namespace ringlet::cli
