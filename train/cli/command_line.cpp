// Command lines and files of options, from words to the values of options, and --help. The only
// unit that knows toml++.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/cli/command.h"

namespace ringlet::cli {
namespace {

/// Perhaps it also has a name: "--model,MODEL".
bool is_argument(const Option& option) { return !option.names.back().starts_with('-'); }

/// "--lr FLOAT in [1e-12 - 10]"
std::string describe(const Option& option) {
  std::string text = fmt::format("{}", fmt::join(option.names, ","));
  if (!option.type.empty()) text += ' ' + option.type;
  if (!option.usual.empty() && !option.type.empty()) text += '=' + option.usual;
  if (option.repeats) text += " ...";
  if (option.required) text += " REQUIRED";
  if (!option.excludes.empty())
    text += fmt::format(" Excludes: {}", fmt::join(option.excludes, " "));
  return text;
}

/// `path`: the command's name after those of the commands above it.
void print_help(const Command& command, const std::string& path, const std::string& footer) {
  const auto print_row = [](const std::string& left, const std::string& right) {
    constexpr std::size_t kLeft = 28;
    fmt::print("  {:<{}}{}{}\n", left, kLeft,
               left.size() < kLeft ? "" : '\n' + std::string(kLeft + 2, ' '), right);
  };
  fmt::print("{}\nUsage: {} [OPTIONS]", command.help, path);
  for (const Option& option : command.options)
    if (is_argument(option)) fmt::print(" {}", option.names.back());
  fmt::print("{}\n\nOptions:\n", command.commands.empty() ? "" : " COMMAND");
  print_row("-h,--help", "Print this help");
  if (!command.version.empty()) print_row("--version", "Print the version");
  for (const Option& option : command.options) print_row(describe(option), option.help);
  if (!command.commands.empty()) fmt::print("\nCommands:\n");
  for (const Command& one : command.commands) print_row(one.name, one.help);
  if (!footer.empty()) fmt::print("\n{}\n", footer);
}

/// "; did you mean --lr?", also for a field of TrainingArguments: --learning-rate. Empty if no
/// option is near. `dashes`: before the names that are known, empty in a file.
std::string suggest(const Command& command, const std::string& dashes, const std::string& name) {
  std::string field = name;
  std::ranges::replace(field, '-', '_');
  std::vector<std::string> known;
  if (!dashes.empty()) known.push_back("--help");
  for (const Option& option : command.options) {
    if (option.setting == field && !field.empty())
      return str("; did you mean ", dashes, option.name().substr(2), '?');
    for (const std::string& one : option.names)
      if (one.starts_with("--") && !(dashes.empty() && one == "--config"))
        known.push_back(dashes + one.substr(2));
  }
  const std::vector<std::string> near = nearest(dashes + name, known);
  return near.empty() ? "" : str("; did you mean ", near.front(), '?');
}

[[noreturn]] void fail_unknown(const Command& command, const std::string& path,
                               const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::string what = "argument", meant;
  if (name.starts_with('-')) {
    what = "option";
    meant = suggest(command, "--", name.substr(std::min(name.find_first_not_of('-'), name.size())));
  } else if (!command.commands.empty()) {
    what = "command";
    std::vector<std::string> known;
    for (const Command& one : command.commands) known.push_back(one.name);
    const std::vector<std::string> near = nearest(name, known);
    if (!near.empty()) meant = str("; did you mean ", near.front(), '?');
  }
  fail_input("unknown ", what, " '", name, "'",
             meant.empty() ? str("; ", path, " --help lists what there is") : meant);
}

void give(Option& option, const std::string& text, const std::string& place = "") {
  for (const std::string& value : option.in_commas ? split(text) : std::vector{text}) {
    if (option.in_commas && value.empty())
      fail_input(place, option.name(), ": expected no empty value, found ", quote(text));
    option.given.push_back({value, place});
  }
}

/// As on the command line.
std::string text_of(const toml::node& node, const std::string& place) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  fail_input(place, "expected a string in quotes, a number, true or false");
}

/// Gives the options of a file that the command line left out. The file is TOML without tables;
/// values are strings in quotes, numbers, true, false, and arrays of them for options that repeat.
void apply_file(const std::string& file, Command& command) {
  const auto place_of = [&](const toml::source_region& at) {
    return str(file, ":", at.begin.line, ": ");
  };
  try {
    const std::string text = read_file(file);
    check_kind(text, file);
    const toml::table table = toml::parse(text);
    for (const auto& [key, node] : table) {
      const std::string name(key.str()), place = place_of(key.source());
      std::vector<Option::Value> values;
      const auto add = [&](const toml::node& value) {
        const std::string at = place_of(value.source());
        values.push_back({text_of(value, at), at});
      };
      if (const auto* array = node.as_array())
        std::for_each(array->begin(), array->end(), add);
      else
        add(node);
      if (values.empty()) fail_input(place, "expected a value in the array");
      Option* const option = name == "config" ? nullptr : command.find("--" + name);
      if (option == nullptr)
        fail_input(place, "unknown option ", quote(name), suggest(command, "", name));
      if (!option->given.empty()) continue;
      if (values.size() > 1 && !option->repeats)
        fail_input(place, option->name(), ": expected one value");
      for (const auto& [value, at] : values) give(*option, value, at);
    }
  } catch (const toml::parse_error& error) {
    fail_input(place_of(error.source()), shown(error.description(), 200),
               "; a value is a text in quotes, a number, true or false");
  }
}

/// Gives each word to an option or an argument. The chosen command; null once --help or --version
/// is answered.
Command* give_words(Command& program, std::span<const char* const> words) {
  Command* command = &program;
  std::string path = program.name;
  bool arguments_only = false;  // after "--"
  const auto next_argument = [&]() -> Option* {
    const auto found = std::ranges::find_if(command->options, [](const Option& one) {
      return is_argument(one) && (one.repeats || one.given.empty());
    });
    return found == command->options.end() ? nullptr : &*found;
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    if (arguments_only || !word.starts_with('-') || word == "-") {
      const auto chosen = std::ranges::find(command->commands, word, &Command::name);
      Option* const argument = next_argument();
      if (chosen != command->commands.end()) {
        command = &*chosen;
        path += ' ' + word;
      } else if (argument == nullptr) {
        fail_unknown(*command, path, word);
      } else if (argument->repeats) {
        for (const char* rest : words.subspan(i)) give(*argument, rest);
        break;
      } else {
        give(*argument, word);
      }
    } else if (word == "--") {
      arguments_only = true;
    } else if (word == "-h" || word == "--help") {
      print_help(*command, path, program.footer);
      return nullptr;
    } else if (word == "--version" && !command->version.empty()) {
      fmt::print("{}\n", command->version);
      return nullptr;
    } else {
      const bool is_short = word[1] != '-';
      const std::size_t end = is_short ? 2 : std::min(word.find('='), word.size());
      Option* const option = command->find(word.substr(0, end));
      if (option == nullptr) fail_unknown(*command, path, word);
      const bool has_value = end < word.size();
      if (!is_short && end + 1 == word.size()) fail_input(word, ": expected a value after the =");
      if (has_value)
        give(*option, word.substr(is_short ? end : end + 1));
      else if (option->type.empty())
        give(*option, "true");
      else if (++i == words.size())
        fail_input(option->name(), ": expected a value");
      else
        give(*option, words[i]);
    }
  }
  if (!command->commands.empty()) fail_input("expected a command; ", path, " --help lists them");
  return command;
}

/// Sets the values of the options in their order.
void set_values(Command& command) {
  for (const Option& option : command.options) {
    if (option.given.size() > 1 && !option.repeats && !option.type.empty()) {  // no flag
      std::vector<std::string> values;
      for (const Option::Value& one : option.given) values.push_back(quote(one.value));
      fail_input(option.name(), ": expected one value, found ",
                 fmt::format("{}", fmt::join(values, " and ")));
    }
    for (const std::string& other : option.excludes)
      if (!option.given.empty() && !command.find(other)->given.empty())
        fail_input(other, " excludes ", option.name());
  }
  Option* const config = command.find("--config");
  if (config && !config->given.empty()) apply_file(config->given.front().value, command);
  for (const Option& option : command.options)
    for (const Option::Value& one : option.given) try {
        option.set(one.value, &one == &option.given.front());
      } catch (const InputError& error) {
        fail_input(one.place, option.name(), ": ", error.what());
      }
  for (const Option& option : command.options) {
    if (option.required && option.given.empty()) fail_input(option.name(), " is required");
    if (!option.given.empty() && !option.needs.empty() && command.find(option.needs)->given.empty())
      fail_input(option.name(), " requires ", option.needs);
  }
}

/// Runs the command. An error about an option has its place in a file.
void run(Command& command) {
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

/// The text with options in place of the fields that it names: --save-steps for save_steps. A field
/// of one word, such as strategy, stays: the text may mean the word.
std::string with_options(const Command& command, const std::string& text) {
  const auto in_name = [&](std::size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  const auto is_of_path = [](char c) {
    return std::string_view("/=-.'\"").find(c) != std::string_view::npos;
  };
  std::string named;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = at + 1;
    while (in_name(at) && in_name(end)) ++end;
    const std::string word = text.substr(at, end - at);
    const auto field = std::ranges::find(command.options, word, &Option::setting);
    const bool in_path =
        (at > 0 && is_of_path(text[at - 1])) || (end < text.size() && is_of_path(text[end]));
    const bool is_field = !in_path && word.find('_') != word.npos && field != command.options.end();
    named += is_field ? field->name() : word;
  }
  return named;
}

}  // namespace

void name_options(const Command& command, const std::function<void()>& body) {
  try {
    body();
  } catch (const SettingError& error) {
    for (const Option& option : command.options)
      if (option.setting == error.setting)
        fail_input(option.name(),
                   with_options(command, std::string(error.what()).substr(error.setting.size())));
    throw;
  }
}

bool parse(Command& program, int argc, const char* const* argv) {
  Command* const command =
      give_words(program, std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (command == nullptr) return false;
  set_values(*command);
  if (command->run) run(*command);
  return true;
}

}  // namespace ringlet::cli
