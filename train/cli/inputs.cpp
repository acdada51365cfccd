#include "ringlet/train/cli/inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/json.h"
#include "ringlet/models/tokenizer/unicode.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/data/bytes.h"
#include "ringlet/train/data/lines.h"

namespace ringlet::cli {
namespace {

/// Whether an object or an array begins; an array may go on in later lines.
bool begins_json(const std::string& line) {
  if (line == "[" || line.starts_with("[{\"")) return true;
  const Json json = Json::try_parse(line).value_or(Json());
  return json.is_object() || (json.is_array() && !json.empty() && json[0].is_string());
}

std::string read_all(const std::string& file) {
  const train::ByteSource source = train::open_bytes(file);
  std::array<char, std::size_t{1} << 16> block;
  std::string bytes;
  while (const std::size_t count = source(block)) bytes.append(block.data(), count);
  return bytes;
}

}  // namespace

void add_read_options(Command& command, train::ReadOptions& options) {
  command.add("--columns", options.columns, "Renames: NAME_IN_FILE=NAME,...").setting = "columns";
  command.add("--split", options.split.name, "The value in the column split of the rows to read");
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
    values_.push_back({file, text.substr(equals + 1)});
  }
}

PerFile::Value* PerFile::find(const std::string& file) {
  auto found = std::ranges::find(values_, file, &Value::file);
  if (found == values_.end()) found = std::ranges::find(values_, "", &Value::file);
  return found == values_.end() ? nullptr : &*found;
}

void PerFile::check_used(const char* files) const {
  for (const Value& value : values_)
    if (!value.used)
      fail_input(option_, ' ', shown(value.file), value.file.empty() ? "" : "=", shown(value.value),
                 ": expected ", files, ", found none");
}

std::vector<std::string> read_texts(const std::string& input) {
  train::LineReader lines{std::filesystem::path(input)};
  std::vector<std::string> texts;
  while (const auto line = lines.next()) {
    if (!models::unicode::is_valid(*line)) lines.fail_here("expected UTF-8 text");
    texts.emplace_back(*line);
  }
  if (texts.empty()) fail_input(lines.name(), ": expected a line of text, found none");
  if (begins_json(texts.front()))
    fail_input(lines.name(), ": expected lines of text, found JSON; its name ends in .jsonl");
  return texts;
}

train::TextsById read_rows(const std::string& input) {
  if (is_table(input)) return train::read_texts_by_id(input, /*numbered=*/true);
  return {.texts = read_texts(input), .report = {.name = train::input_name(input), .unit = "line"}};
}

bool is_table(std::filesystem::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zip") path.replace_extension();
  const std::filesystem::path kind = path.extension();
  return kind == ".csv" || kind == ".tsv" || kind == ".jsonl";
}

std::vector<std::string> share(std::vector<std::string> texts, const comm::Group& world) {
  if (world.size() == 1) return texts;
  const std::string shared = world.all_gather_bytes(Json(texts).dump())[0];
  return Json::parse(shared).get<std::vector<std::string>>();
}

train::TextsById read_documents(const std::string& option, const std::string& input) {
  train::TextsById rows = read_rows(input);
  train::TextsById found{.report = std::move(rows.report)};
  for (std::size_t row = 0; row < rows.texts.size(); ++row) {
    if (train::strip(rows.texts[row]).empty()) continue;
    found.ids.push_back(rows.ids.empty() ? std::to_string(row) : std::move(rows.ids[row]));
    found.texts.push_back(std::move(rows.texts[row]));
  }
  if (found.texts.empty()) fail_input(option, ' ', input, ": expected texts, found none");
  found.report.count = found.texts.size();
  found.report.skipped = {{rows.texts.size() - found.texts.size(), "empty text"}};
  found.report.empty_texts = 0;
  return found;
}

void read_pipes(const std::vector<std::string>& files, const comm::Group& world) {
  for (const std::string& file : files) {
    if (file.empty()) continue;
    // Rank 0 decides: /dev/fd/63 may be another file elsewhere.
    const bool once = world.rank() == 0 && train::is_read_once(file);
    std::string bytes = once ? '+' + read_all(file) : "";
    if (world.size() > 1) bytes = world.all_gather_bytes(bytes)[0];
    if (!bytes.empty()) train::keep_input(file, bytes.substr(1));
  }
}

void read_pipe(const std::string& option, const std::string& file, int readers) {
  if (!train::is_read_once(file)) return;
  if (readers > 1)
    fail_input(option, ' ', file, ": expected a regular file, which each of the ", readers,
               " ranks can read, found a pipe, a device or standard input");
  train::keep_input(file, read_all(file));
}

}  // namespace ringlet::cli
