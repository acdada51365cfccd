#include "ringlet/train/data/readers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "ringlet/core/base/quote.h"
#include "ringlet/models/tokenizer/unicode.h"
#include "ringlet/train/data/text.h"

namespace ringlet::train {
namespace {

using Columns = std::vector<std::string>;

constexpr double kStsbScale = 5;
constexpr std::size_t kStsbScoreField = 4;  // genre, file, year, id, score, sentence1, sentence2
constexpr std::size_t kStsbFields = 7;

bool has(const Columns& columns, std::string_view name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

bool has_pair(const Columns& columns) {
  return has(columns, "sentence1") && has(columns, "sentence2");
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

bool is_number(std::string_view text) { return parse_number(strip(text)).has_value(); }

/// The columns to take from each row, and how.
struct Plan {
  Columns texts;
  Target target = Target::none;
  std::string target_column;
  double scale = 1;
  double min_score = -1;
  int num_labels = 0;
};

Layout detect_layout(const Columns& columns) {
  if (has_pair(columns) && has(columns, "gold_label")) return Layout::nli;
  if (has_pair(columns) && has(columns, "score") && has(columns, "genre")) return Layout::stsb;
  if (has_pair(columns) || has(columns, "anchor") || has(columns, "sentence")) {
    return Layout::columns;
  }
  if (columns.size() == 3 && is_number(columns[2])) return Layout::stsb;
  if (columns.size() >= kStsbFields && is_number(columns[kStsbScoreField])) return Layout::stsb;
  return Layout::detect;
}

void require(const RowReader& rows, const Columns& columns, const Columns& needed) {
  for (const std::string& name : needed) {
    if (has(columns, name)) continue;
    std::string found;
    for (const std::string& column : columns) found += (found.empty() ? "" : ", ") + column;
    fail_input(rows.name(), ":1: expected a column ", quote(name), ", found ", shown(found));
  }
}

Plan plan_nli(RowReader& rows, const ReadOptions& options) {
  require(rows, rows.columns(), {"sentence1", "sentence2", "gold_label"});
  rows.allow_ragged_rows();
  Plan plan{{"sentence1", "sentence2"}, Target::label, "gold_label"};
  plan.num_labels = static_cast<int>(options.labels.size());
  return plan;
}

Plan plan_stsb(RowReader& rows) {
  const Columns columns = rows.columns();
  if (!has_pair(columns)) {
    if (columns.size() == 3) {
      rows.set_header({"sentence1", "sentence2", "score"});
    } else if (columns.size() >= kStsbFields) {
      rows.set_header({"genre", "file", "year", "id", "score", "sentence1", "sentence2"});
      rows.allow_ragged_rows();
    } else {
      fail_input(rows.name(), ":1: expected sentence1, sentence2, score or at least ", kStsbFields,
                 " fields, found ", columns.size());
    }
  } else {
    require(rows, columns, {"score"});
  }
  return {{"sentence1", "sentence2"}, Target::score, "score", kStsbScale, 0};
}

Plan plan_columns(const RowReader& rows, const ReadOptions& options) {
  const Columns columns = rows.columns();
  Plan plan;
  if (has(columns, "anchor")) {
    require(rows, columns, {"positive"});
    plan.texts = {"anchor", "positive"};
    if (has(columns, "negative")) plan.texts.push_back("negative");
  } else if (has(columns, "sentence1") || has(columns, "sentence2")) {
    require(rows, columns, {"sentence1", "sentence2"});
    plan.texts = {"sentence1", "sentence2"};
  } else {
    require(rows, columns, {"sentence"});
    plan.texts = {"sentence"};
  }
  if (has(columns, "label") && has(columns, "score")) {
    fail_input(rows.name(),
               ":1: expected a column 'label' or 'score', found both: rename one away");
  }
  if (has(columns, "label")) plan.target = Target::label;
  if (has(columns, "score")) plan.target = Target::score;
  plan.target_column = has(columns, "label") ? "label" : "score";
  plan.scale = options.score_scale;
  plan.num_labels = options.num_labels;
  return plan;
}

Plan make_plan(RowReader& rows, const ReadOptions& options) {
  const Layout layout =
      options.layout == Layout::detect ? detect_layout(rows.columns()) : options.layout;
  switch (layout) {
    case Layout::nli:
      return plan_nli(rows, options);
    case Layout::stsb:
      return plan_stsb(rows);
    case Layout::columns:
      return plan_columns(rows, options);
    case Layout::detect:
      break;
  }
  fail_input(rows.name(),
             ":1: expected columns sentence1 and sentence2 (with label, score or gold_label), "
             "anchor and positive, or sentence; name them with --columns NAME_IN_FILE=NAME");
}

[[noreturn]] void refuse_rename(const RowReader& rows) {
  const auto& [from, to] = rows.missing_renames().front();
  fail_input(rows.name(), ":1: no column ", quote(from), " to use as ", quote(to));
}

/// A file may lack columns that are renamed for other files, if there is a plan without them.
Plan make_plan_with_renames(RowReader& rows, const ReadOptions& options) {
  const Renames& missing = rows.missing_renames();
  if (missing.empty()) return make_plan(rows, options);
  if (!options.missing_columns) refuse_rename(rows);
  *options.missing_columns = missing;
  try {
    return make_plan(rows, options);
  } catch (const InputError&) {
    refuse_rename(rows);
  }
}

std::string_view text_field(const RowReader& rows, const std::string& column) {
  const std::optional<std::string_view> field = rows.find(column);
  if (!field) rows.fail_here("expected a field ", quote(column));
  if (!models::unicode::is_valid(*field)) rows.fail_here("expected UTF-8 in ", quote(column));
  return strip(*field);
}

/// The class of the current row; nullopt if its annotators had no majority.
std::optional<int> read_label(const RowReader& rows, const Plan& plan, const ReadOptions& options) {
  const std::string_view text = text_field(rows, plan.target_column);
  if (text == "-" || text == "-1") return std::nullopt;
  const auto name = std::find(options.labels.begin(), options.labels.end(), text);
  const double by_name = static_cast<double>(name - options.labels.begin());
  const std::optional<double> value = name != options.labels.end() ? by_name : parse_number(text);
  constexpr double kMaxLabel = 1 << 24;
  if (!value || *value != std::floor(*value) || *value < 0 || *value > kMaxLabel) {
    std::string names;
    for (const std::string& label : options.labels) names += label + ", ";
    rows.fail_here("expected ", names, "or a class number in ", quote(plan.target_column),
                   ", found ", quote(text));
  }
  if (plan.num_labels > 0 && *value >= plan.num_labels) {
    rows.fail_here("label ", shown(text), " is out of range: expected 0 to ", plan.num_labels - 1);
  }
  return static_cast<int>(*value);
}

double read_score(const RowReader& rows, const Plan& plan) {
  const std::string_view text = text_field(rows, plan.target_column);
  const std::optional<double> value = parse_number(text);
  if (!value) {
    rows.fail_here("expected a number in ", quote(plan.target_column), ", found ", quote(text));
  }
  if (*value < plan.min_score * plan.scale || *value > plan.scale) {
    rows.fail_here("score ", shown(text), " is out of range: expected ",
                   plan.min_score * plan.scale, " to ", plan.scale, " (score scale ", plan.scale,
                   ")");
  }
  return *value / plan.scale;
}

void read_row(const RowReader& rows, const Plan& plan, const ReadOptions& options,
              TextDataset& dataset) {
  double target = 0;
  if (plan.target == Target::label) {
    const std::optional<int> label = read_label(rows, plan, options);
    if (!label) return dataset.count_skipped();
    target = *label;
  } else if (plan.target == Target::score) {
    target = read_score(rows, plan);
  }
  std::array<std::string_view, kMaxColumns> texts;
  for (std::size_t i = 0; i < plan.texts.size(); ++i) texts[i] = text_field(rows, plan.texts[i]);
  dataset.add_row(std::span(texts).first(plan.texts.size()), target);
}

}  // namespace

TextDataset read_dataset(LineReader lines, const ReadOptions& options) {
  if (!(options.score_scale > 0)) {
    fail_input("score scale: expected more than 0, found ", options.score_scale);
  }
  const std::unique_ptr<RowReader> rows =
      open_rows(std::move(lines), options.format, parse_renames(options.columns));
  if (options.missing_columns) options.missing_columns->clear();
  const Plan plan = make_plan_with_renames(*rows, options);
  TextDataset dataset(rows->name(), plan.texts, plan.target);
  while (rows->next()) read_row(*rows, plan, options, dataset);
  if (dataset.size() == 0) {
    fail_input(rows->name(), ": empty: expected at least one row, found none (", dataset.skipped(),
               " without a gold label)");
  }
  dataset.shrink_to_fit();
  return dataset;
}

TextDataset read_dataset(const std::filesystem::path& path, const ReadOptions& options) {
  return read_dataset(LineReader(path), options);
}

}  // namespace ringlet::train
