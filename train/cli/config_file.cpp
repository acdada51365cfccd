#include "ringlet/train/cli/config_file.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/file_kind.h"

namespace ringlet::cli {
namespace {

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

}  // namespace

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

}  // namespace ringlet::cli
