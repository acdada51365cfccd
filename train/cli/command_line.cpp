// The only unit that knows CLI11 and toml++. It splits a command line, or a file of options, into
// options and their texts, and prints the help.
#include <fmt/core.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/cli/command.h"

namespace ringlet::cli {
namespace {

bool is_option(const std::string& text) { return text.starts_with('-'); }

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

/// All long names, without dashes.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

/// The option of a name in TrainingArguments, with any dashes: "--learning-rate". Null if none.
const Option* of_setting(const Command& command, std::string name) {
  std::ranges::replace(name, '-', '_');
  name.erase(0, name.find_first_not_of('_'));
  const auto found = std::ranges::find(command.options, name, &Option::setting);
  return name.empty() || found == command.options.end() ? nullptr : &*found;
}

/// The unknown argument, with the option or subcommand that was perhaps meant.
std::string describe_unknown(const CLI::App& app, const Command& command,
                             const std::string& unknown) {
  std::vector<std::string> known;
  if (is_option(unknown)) {
    for (const std::string& name : option_names(app)) known.push_back("--" + name);
  } else {
    for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(subcommand->get_name());
  }
  const std::string name = unknown.substr(0, unknown.find('='));
  const Option* const setting = is_option(name) ? of_setting(command, name) : nullptr;
  const std::vector<std::string> near =
      setting ? std::vector{setting->name()} : nearest(name, known);
  const char* what = is_option(name) ? "option" : known.empty() ? "argument" : "command";
  return fmt::format("unknown {} '{}'{}", what, name,
                     near.empty() ? fmt::format("; {} --help lists what there is", full_name(app))
                                  : fmt::format("; did you mean {}?", near.front()));
}

std::string usage_error(const CLI::App& app, const Command& program, const CLI::ParseError& error) {
  std::vector<const CLI::App*> commands{&app};  // each after the first is a subcommand of the last
  const Command* last = &program;
  while (!commands.back()->get_subcommands().empty()) {
    commands.push_back(commands.back()->get_subcommands().front());
    last = &*std::ranges::find(last->commands, commands.back()->get_name(), &Command::name);
  }
  const CLI::App& command = *commands.back();
  std::reverse(commands.begin(), commands.end());
  // A misspelt option leaves the one that was meant missing: the spelling is the better news. After
  // a misspelt command every option is unknown.
  for (const CLI::App* parsed : commands) {
    const std::vector<std::string> unknown = parsed->remaining();
    if (unknown.empty()) continue;
    const bool lacks_command = parsed == &command && parsed->get_require_subcommand_min() > 0;
    const auto option = std::ranges::find_if(unknown, is_option);
    const bool is_command = lacks_command || option == unknown.end();
    return describe_unknown(*parsed, *last, is_command ? unknown.front() : *option);
  }
  for (const CLI::Option* option : command.get_options())
    if (option->get_expected_max() == 1 && option->count() > 1)
      return fmt::format("{}: given {} times, perhaps by another of its names; expected one value",
                         option->get_name(), option->count());
  if (command.get_require_subcommand_min() > 0)
    return fmt::format("expected a command; {} --help lists them", full_name(command));
  const std::string text = error.what();  // "--model: 1 required TEXT missing"
  if (text.ends_with(" missing")) return text.substr(0, text.find(':')) + ": expected a value";
  return text;
}

/// A line `name = value` of a file of options.
struct Setting {
  std::string name;   // an option's long name, without dashes
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

/// The settings of a file by line; an array is several of one name. The file is TOML without
/// tables. Values are strings in quotes, numbers, true, false and arrays of them. Wrong files are
/// InputError, with the line.
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
    fail_input(file, ":", line_of(error.source()), ": ", shown(error.description(), 200),
               "; a value is a text in quotes, a number, true or false");
  }
  std::ranges::stable_sort(settings, {}, &Setting::line);
  return settings;
}

/// Adds a file's settings to the options that the command line left out.
void apply_file(const std::string& file, Command& command, CLI::App& app) {
  for (const Setting& setting : read_settings(file)) {
    const std::string place = str(file, ":", setting.line, ": ");
    const auto option = std::ranges::find_if(
        command.options, [&](const Option& one) { return one.is_named("--" + setting.name); });
    if (option == command.options.end()) {
      std::vector<std::string> known = option_names(app);
      std::erase(known, "config");  // no file names another
      std::vector<std::string> near = nearest(setting.name, known);
      if (const Option* meant = of_setting(command, setting.name))
        near.insert(near.begin(), meant->name().substr(2));
      fail_input(place, "unknown option ", quote(setting.name),
                 near.empty() ? "" : "; did you mean " + near.front() + "?");
    }
    CLI::Option& parsed = *app.get_option("--" + setting.name);
    if (parsed.count() > 0 && option->given.empty()) continue;  // the command line's count first
    if (parsed.count() > 0 && !option->repeats)
      fail_input(place, option->name(), ": expected one value");
    parsed.add_result(setting.value);
    option->given.push_back({setting.value, place});
  }
}

void declare(CLI::App& app, const Option& option) {
  if (option.type.empty()) {
    app.add_flag(option.names)->description(option.help);
    return;
  }
  CLI::Option* const added = app.add_option(
      option.names, [](const auto&) { return true; }, option.help);
  // CLI11 would refuse a missing one before a wrong value of another, which is the better news.
  added->type_name(option.type + (option.required ? " REQUIRED" : ""))->default_str(option.usual);
  if (option.repeats)
    added->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
}

void build(CLI::App& app, Command& command) {
  for (const Option& option : command.options) declare(app, option);
  for (const Option& option : command.options) {
    CLI::Option* const added = app.get_option(option.name());
    for (const std::string& other : option.excludes) added->excludes(app.get_option(other));
  }
  if (command.takes_config)
    app.add_option_function<std::string>(
        "--config", [&](const std::string& file) { apply_file(file, command, app); },
        "Options from a file, a line NAME = VALUE each; those given here count before it");
  if (!command.footer.empty()) app.footer(command.footer);
  if (!command.version.empty()) app.set_version_flag("--version", command.version);
  if (!command.commands.empty()) app.require_subcommand(1);
  for (Command& one : command.commands) build(*app.add_subcommand(one.name, one.help), one);
}

/// Sets the values of the options in their order.
void set_values(const CLI::App& app, Command& command) {
  for (Option& option : command.options) {
    if (option.given.empty())  // by no file
      for (const std::string& text : app.get_option(option.name())->results())
        option.given.push_back({text});
    for (const Option::Value& one : option.given) try {
        option.set(one.value, &one == &option.given.front());
      } catch (const InputError& error) {
        fail_input(one.place, option.name(), ": ", error.what());
      }
  }
  for (const Option& option : command.options) {
    if (option.required && option.given.empty()) fail_input(option.name(), " is required");
    if (!option.given.empty() && !option.needs.empty() && command.find(option.needs)->given.empty())
      fail_input(option.name(), " requires ", option.needs);
  }
}

/// Runs the command. An error about an option has its place in a file.
void run(const Command& command) {
  try {
    name_options(command, command.run);
  } catch (const InputError& error) {
    std::string message = error.what();
    // All ranks have the same options.
    if (const auto rank = message.find(": --"); message.starts_with("rank ") && rank < 12)
      message.erase(0, rank + 2);
    const Option* const option = command.find(message.substr(0, message.find_first_of(" :,")));
    if (option == nullptr || option->given.empty()) fail_input(message);
    const auto named = std::ranges::find_if(option->given, [&](const Option::Value& one) {
      return message.find(one.value, option->name().size()) != message.npos;
    });
    fail_input((named == option->given.end() ? option->given.back() : *named).place, message);
  }
}

}  // namespace

void name_options(const Command& command, const std::function<void()>& body) {
  try {
    body();
  } catch (const SettingError& error) {
    for (const Option& option : command.options)
      if (option.setting == error.setting)
        fail_input(option.name(), std::string(error.what()).substr(error.setting.size()));
    throw;
  }
}

bool parse(Command& program, int argc, const char* const* argv) {
  // CLI11 would take the next argument for the value.
  for (const std::string argument : std::span(argv, static_cast<std::size_t>(argc)))
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1)
      fail_input(argument, ": expected a value after the =");
  CLI::App app{program.help, program.name};
  build(app, program);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answered) {
    app.exit(answered);
    return false;
  } catch (const CLI::ParseError& error) {
    fail_input(usage_error(app, program, error));
  }
  const CLI::App* parsed = &app;
  Command* command = &program;
  for (;;) {
    set_values(*parsed, *command);
    if (parsed->get_subcommands().empty()) break;
    parsed = parsed->get_subcommands().front();
    command = &*std::ranges::find(command->commands, parsed->get_name(), &Command::name);
  }
  if (command->run) run(*command);
  return true;
}

}  // namespace ringlet::cli
