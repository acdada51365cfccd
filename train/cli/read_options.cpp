#include "ringlet/train/cli/read_options.h"

#include <fmt/core.h>

#include <algorithm>

#include "ringlet/core/base/quote.h"
#include "ringlet/train/cli/command.h"

namespace ringlet::cli {
namespace {

constexpr Range kScales{1e-300, 1e300};

/// The part behind the last '=', or all.
std::string value_of(const std::string& text) { return text.substr(text.rfind('=') + 1); }

}  // namespace

void add_read_options(Command& command, train::ReadOptions& options) {
  command.add("--columns", options.columns, "Renames: NAME_IN_FILE=NAME,...");
  command.add("--split", options.split.name, "The value in the column split of the rows to read");
}

void add_score_scale(Command& command, train::ReadOptions& options) {
  command.add("--score-scale", options.score_scale, kScales,
              "The best score: 1, or 5 for the STS benchmark, unless given");
}

void print_reports(const std::vector<train::FileReport>& reports) {
  for (const train::FileReport& report : reports)
    if (!report.name.empty()) fmt::print(stderr, "{}\n", train::describe(report));
}

PerFile::PerFile(std::string option, const std::vector<std::string>& values)
    : option_(std::move(option)) {
  for (const std::string& text : values) {
    const std::size_t equals = text.rfind('=');
    const std::string file = equals == text.npos ? "" : text.substr(0, equals);
    if (std::ranges::find(values_, file, &Value::file) != values_.end())
      fail_input(option_, ' ', shown(text), ": expected one value for ",
                 file.empty() ? "all files" : shown(file));
    values_.push_back({file, value_of(text)});
  }
}

std::size_t PerFile::find(const std::string& file) const {
  auto found = std::ranges::find(values_, file, &Value::file);
  if (found == values_.end()) found = std::ranges::find(values_, "", &Value::file);
  return static_cast<std::size_t>(found - values_.begin());
}

std::optional<std::string> PerFile::of(const std::string& file) const {
  const std::size_t at = find(file);
  return at == values_.size() ? std::nullopt : std::optional(values_[at].value);
}

bool PerFile::is_own(const std::string& file) const {
  return std::ranges::find(values_, file, &Value::file) != values_.end();
}

void PerFile::use(const std::string& file) {
  if (const std::size_t at = find(file); at < values_.size()) values_[at].used = true;
}

void PerFile::check_used(const char* files) const {
  for (const Value& value : values_)
    if (!value.used)
      fail_input(option_, ' ', shown(value.file), value.file.empty() ? "" : "=", shown(value.value),
                 ": expected ", files, ", found none");
}

void add_per_file_options(Command& command, PerFileOptions& options) {
  command.add("--split", options.split,
              "The value in the column split of the rows to train on, for --data files that "
              "have one; FILE=NAME for one file; may be repeated");
  command.add("--eval-split", options.eval_split, "The same for --eval files");
  const auto check = [](const std::string& text) { detail::parse(kScales, value_of(text)); };
  command.add("--score-scale", options.score_scale, check,
              "The best score of all files, or FILE=SCALE of one, may be repeated: 1, or 5 for the "
              "STS benchmark, unless given");
}

}  // namespace ringlet::cli
