#include "ringlet/train/data/rows.h"

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/models/tokenizer/unicode.h"
#include "ringlet/train/data/csv.h"
#include "ringlet/train/data/lines.h"

namespace ringlet::train {
namespace {

/// Empty for a column if another one takes its name.
std::string_view renamed(std::string_view name, const Renames& renames) {
  for (const auto& [from, to] : renames)
    if (from == name) return to;
  const bool taken =
      std::ranges::any_of(renames, [&](const auto& one) { return one.second == name; });
  return taken ? std::string_view() : name;
}

/// Moves the renames of columns that are not among `file_names` to `missing`.
Renames applicable(const Renames& renames, const std::vector<std::string>& file_names,
                   Renames& missing) {
  Renames found;
  for (const auto& rename : renames) {
    const bool there =
        std::find(file_names.begin(), file_names.end(), rename.first) != file_names.end();
    (there ? found : missing).push_back(rename);
  }
  return found;
}

class DelimitedRows : public RowReader {
 public:
  DelimitedRows(LineReader lines, Delimited dialect, const Renames& renames)
      : csv_(std::move(lines), dialect), dialect_(dialect) {
    if (!csv_.next()) return;
    std::vector<std::string> names;
    for (const std::string_view field : csv_.fields()) names.emplace_back(strip(field));
    const Renames own = applicable(renames, names, missing_renames_);
    for (const std::string& name : names)
      fields_.push_back({name, std::string(renamed(name, own))});
  }

  const std::string& name() const override { return csv_.name(); }
  std::size_t line() const override { return csv_.line(); }
  void allow_ragged_rows() override { ragged_ = true; }

  void set_header(std::vector<std::string> names) override {
    fields_.clear();
    for (const std::string& column : names) fields_.push_back({column, column});
    first_is_data_ = true;
  }

  bool next() override {
    if (!std::exchange(distinct_, true)) check_distinct();
    if (!std::exchange(first_is_data_, false) && !csv_.next()) return false;
    const std::size_t found = csv_.fields().size();
    if (!ragged_ && found != fields_.size()) {
      fail_here("expected ", fields_.size(), " fields, found ", found,
                dialect_ == Delimited::tsv ? " (separated by tabs)" : " (separated by commas)");
    }
    return true;
  }

  std::optional<std::string_view> find(std::string_view column) const override {
    const auto at = std::ranges::find(fields_, column, &Field::name) - fields_.begin();
    const auto index = static_cast<std::size_t>(at);
    if (index >= fields_.size() || index >= csv_.fields().size()) return std::nullopt;
    return csv_.fields()[index];
  }

 private:
  CsvReader csv_;
  Delimited dialect_;
  bool ragged_ = false;
  bool distinct_ = false;
  bool first_is_data_ = false;
};

class JsonlRows : public RowReader {
 public:
  JsonlRows(LineReader lines, const Renames& renames) : lines_(std::move(lines)) {
    pending_ = read();
    std::vector<std::string> keys;
    for (const JsonMember& member : members_) keys.push_back(member.key);
    renames_ = applicable(renames, keys, missing_renames_);
    for (const std::string& key : keys)
      fields_.push_back({key, std::string(renamed(key, renames_))});
    all_renames_ = renames;
  }

  const std::string& name() const override { return lines_.name(); }
  std::size_t line() const override { return lines_.line(); }
  void set_header(std::vector<std::string>) override {}

  bool next() override {
    if (std::exchange(pending_, false)) {
      check_distinct();
      return true;
    }
    if (!read()) return false;
    add_late_keys();
    return true;
  }

  std::optional<std::string_view> find(std::string_view column) const override {
    for (const auto& [key, text, kind] : members_) {
      if (renamed(key, renames_) != column) continue;
      if (kind == JsonMember::Kind::null) return std::nullopt;
      if (kind == JsonMember::Kind::other)
        fail_here("expected a string or a number in ", quote(column));
      return text;
    }
    return std::nullopt;
  }

 private:
  bool read() {
    std::optional<std::string_view> line = lines_.next();
    while (line && strip(*line).empty()) line = lines_.next();
    if (!line) return false;
    std::string complaint;
    members_ = json_members(*line, complaint);
    if (!complaint.empty()) fail_here(complaint);
    return true;
  }

  /// A null is no value, as in an object without the key.
  void add_late_keys() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const auto& [key, text, kind] = members_[i];
      if (kind == JsonMember::Kind::null) continue;
      if (i < fields_.size() && fields_[i].in_file == key) continue;  // as usual
      if (std::ranges::find(fields_, key, &Field::in_file) != fields_.end()) continue;
      const auto source = std::ranges::find(all_renames_, key, &Renames::value_type::first);
      fields_.push_back({key, source != all_renames_.end() ? source->second
                                                           : std::string(renamed(key, renames_))});
    }
  }

  LineReader lines_;
  std::vector<JsonMember> members_;
  Renames renames_;      // of the first object's keys
  Renames all_renames_;  // also of keys that it lacks
  bool pending_ = false;
};

bool begins_json_array(std::string_view line) {
  if (!line.starts_with('[')) return false;
  const std::string_view item = strip(line.substr(1));
  return item.empty() || item.starts_with('{') || item.starts_with('[') || item.starts_with('"');
}

Delimited dialect_of(std::string_view name, std::string_view first) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  const auto tabs = std::count(first.begin(), first.end(), '\t');
  const auto commas = std::count(first.begin(), first.end(), ',');
  return name.ends_with(".tsv") || tabs > commas ? Delimited::tsv : Delimited::csv;
}

}  // namespace

std::string RowReader::shown_columns() const {
  std::string text;
  for (const std::string& name : columns()) text += (text.empty() ? "" : ", ") + name;
  return shown(text, 200);
}

std::vector<std::string> RowReader::columns() const {
  std::vector<std::string> names;
  for (const Field& field : fields_) names.push_back(field.name);
  return names;
}

FileReport RowReader::report(const std::vector<std::string>& used) const {
  FileReport report{.name = name()};
  for (const auto& [in_file, name] : fields_)
    if (has_column(used, name))
      report.columns.push_back(in_file == name ? name : str(in_file, " as ", name));
    else
      report.unused.push_back(in_file);
  return report;
}

void RowReader::check_distinct() const {
  for (std::size_t i = 0; i < fields_.size(); ++i)
    for (std::size_t j = 0; j < i && !fields_[i].name.empty(); ++j)
      if (fields_[i].name == fields_[j].name)
        fail_input(
            name(), ":", line(), ": two columns ", quote(fields_[i].name),
            fields_[i].in_file == fields_[j].in_file
                ? ""
                : str(", from ", quote(fields_[j].in_file), " and ", quote(fields_[i].in_file)));
}

std::string_view RowReader::whole_text(const std::string& column) const {
  const std::optional<std::string_view> field = find(column);
  if (!field) fail_here("expected a field ", quote(column));
  if (!models::unicode::is_valid(*field)) fail_here("expected UTF-8 in ", quote(column));
  return *field;
}

std::string_view RowReader::text(const std::string& column) const {
  return strip(whole_text(column));
}

bool has_column(const std::vector<std::string>& columns, std::string_view name) {
  return std::ranges::find(columns, name) != columns.end();
}

Renames parse_renames(std::string_view text) {
  Renames renames;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
      fail_setting("columns", ": expected NAME_IN_FILE=NAME, found ", quote(item));
    }
    const std::string_view from = strip(item.substr(0, equals));
    if (std::ranges::find(renames, from, &Renames::value_type::first) != renames.end())
      fail_setting("columns", ": renames ", quote(from), " twice");
    renames.emplace_back(from, strip(item.substr(equals + 1)));
  }
  return renames;
}

std::unique_ptr<RowReader> open_rows(LineReader lines, const Renames& renames) {
  std::optional<std::string_view> first = lines.peek();
  while (first && strip(*first).empty()) {
    lines.next();
    first = lines.peek();
  }
  if (!first) fail_input(lines.name(), ": empty: expected at least one row");
  if (begins_json_array(strip(*first)))
    fail_input(lines.name(), ":1: a JSON array; expected JSON lines, an object each: jq -c '.[]' ",
               lines.name());
  if (strip(*first).starts_with('{')) return std::make_unique<JsonlRows>(std::move(lines), renames);
  const Delimited dialect = dialect_of(lines.name(), *first);
  return std::make_unique<DelimitedRows>(std::move(lines), dialect, renames);
}

SplitFilter::SplitFilter(std::string file, bool has_column, const SplitChoice& choice)
    : file_(std::move(file)), wanted_(choice.name), has_column_(has_column) {
  if (!has_column_ && !wanted_.empty() && !choice.shared)
    fail_input(file_, ": no column 'split' for --split ", shown(wanted_));
}

bool SplitFilter::takes(std::optional<std::string_view> split) {
  if (!has_column_) return true;
  const std::string_view name = strip(split.value_or(""));
  auto found = rows_.find(name);
  if (found == rows_.end()) found = rows_.emplace(name, 0).first;
  ++found->second;
  return !wanted_.empty() && name == wanted_;
}

void SplitFilter::finish(FileReport& report) const {
  if (!has_column_) return;
  std::size_t others = 0;
  std::string all;
  for (const auto& [name, count] : rows_) {
    all += str(all.empty() ? "" : ", ", quote(name), " (", count, count == 1 ? " row)" : " rows)");
    if (name != wanted_) others += count;
  }
  if (wanted_.empty() || !rows_.contains(wanted_))
    fail_input(file_, ": expected --split with one of its splits ", shown(all, 300),
               wanted_.empty() ? "" : ", found " + quote(wanted_));
  report.split = wanted_;
  report.skipped.emplace_back(others, "other splits");
}

}  // namespace ringlet::train
