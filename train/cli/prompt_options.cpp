#include "ringlet/train/cli/prompt_options.h"

#include <CLI/CLI.hpp>

#include "ringlet/core/base/error.h"
#include "ringlet/train/cli/option_values.h"

namespace ringlet::cli {

void add_prompt_options(CLI::App& command, PromptOptions& options) {
  const auto add = [&](const char* name, std::vector<std::string>& values, const char* help) {
    // CLI11 would drop the brackets of [a].
    command.add_option(name, values, help)->allow_extra_args(false);
  };
  add("--prompt", options.texts,
      "TEXT that goes before every text trained on; COLUMN=TEXT before those of a column, =TEXT if "
      "it contains a =; may be repeated");
  add("--prompt-name", options.names, "The same: NAME or COLUMN=NAME of the folder's prompts");
}

train::Prompts read_prompts(const PromptOptions& options, const models::SentenceEncoder& encoder) {
  train::Prompts prompts;
  const auto add = [&](const char* option, const std::string& given, const auto& text_of) {
    const std::size_t equals = given.find('=');
    const std::string column = equals == given.npos ? "" : given.substr(0, equals);
    const std::string text = of_option(str(option, ' ', given), [&] {
      return encoder.prompt(text_of(equals == given.npos ? given : given.substr(equals + 1)));
    });
    if (!prompts.emplace(column, text).second)
      fail_input(option, ' ', given, ": expected one prompt for ",
                 column.empty() ? "every column" : column, ", found two");
  };
  using models::EncodeOptions;
  for (const std::string& text : options.texts)
    add("--prompt", text, [](const std::string& of) { return EncodeOptions{.prompt = of}; });
  for (const std::string& name : options.names)
    add("--prompt-name", name,
        [](const std::string& of) { return EncodeOptions{.prompt_name = of}; });
  return prompts;
}

}  // namespace ringlet::cli
