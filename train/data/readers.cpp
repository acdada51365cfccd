#include "ringlet/train/data/readers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ringlet/core/base/number.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/train/data/text.h"

namespace ringlet::train {
namespace {

using Columns = std::vector<std::string>;

const Columns kPair{"sentence1", "sentence2"};
constexpr std::array<std::string_view, 3> kLabels{"entailment", "neutral", "contradiction"};
constexpr double kStsbScale = 5;
constexpr std::size_t kStsbScoreField = 4;  // genre, file, year, id, score, sentence1, sentence2
constexpr std::size_t kStsbFields = 7;

bool has_pair(const Columns& columns) {
  return has_column(columns, "sentence1") && has_column(columns, "sentence2");
}

std::string list(const Columns& columns) {
  std::string names;
  for (const std::string& column : columns) names += (names.empty() ? "" : ", ") + column;
  return names;
}

std::optional<double> finite_number(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// Also true and false as JSON and pandas write them.
std::optional<double> class_number(std::string_view text) {
  if (text == "true" || text == "True") return 1;
  if (text == "false" || text == "False") return 0;
  return finite_number(text);
}

bool is_number(std::string_view text) { return finite_number(strip(text)).has_value(); }

/// The columns to take from each row, and how.
struct Plan {
  Columns texts;
  Target target = Target::none;
  std::string target_column;
  double scale = 1;
  double min_score = -1;
  int num_labels = 0;
  bool needs_texts = false;
};

Plan stsb_plan() { return {kPair, Target::score, "score", kStsbScale, 0}; }

Plan plan_columns(const RowReader& rows, const Columns& columns, const ReadOptions& options) {
  Plan plan;
  if (has_column(columns, "anchor")) {
    if (!has_column(columns, "positive"))
      fail_input(rows.name(), ":1: expected a column 'positive', found ", shown(list(columns)));
    plan.texts = {"anchor", "positive"};
    if (has_column(columns, "negative")) plan.texts.push_back("negative");
    for (std::size_t i = 1; has_column(columns, str("negative_", i)); ++i)
      plan.texts.push_back(str("negative_", i));
    if (plan.texts.size() > kMaxColumns)
      fail_input(rows.name(), ":1: expected at most ", kMaxColumns, " texts a row, found ",
                 plan.texts.size());
  } else {
    plan.texts = has_pair(columns) ? kPair : Columns{"sentence"};
  }
  if (has_column(columns, "label") && has_column(columns, "score")) {
    fail_input(rows.name(),
               ":1: expected a column 'label' or 'score', found both: rename one away");
  }
  if (has_column(columns, "label")) plan.target = Target::label;
  if (has_column(columns, "score")) plan.target = Target::score;
  plan.target_column = has_column(columns, "label") ? "label" : "score";
  plan.scale = options.score_scale;
  plan.num_labels = options.num_labels;
  return plan;
}

Plan make_plan(RowReader& rows, const ReadOptions& options) {
  const Columns columns = rows.columns();
  if (has_pair(columns) && has_column(columns, "gold_label")) {
    rows.allow_ragged_rows();
    Plan plan{kPair, Target::label, "gold_label"};
    plan.num_labels = static_cast<int>(kLabels.size());
    return plan;
  }
  if (has_pair(columns) && has_column(columns, "score") && has_column(columns, "genre"))
    return stsb_plan();
  if (has_pair(columns) || has_column(columns, "anchor") || has_column(columns, "sentence"))
    return plan_columns(rows, columns, options);
  if (columns.size() == 3 && is_number(columns[2])) {
    rows.set_header({"sentence1", "sentence2", "score"});
    return stsb_plan();
  }
  if (columns.size() >= kStsbFields && is_number(columns[kStsbScoreField])) {
    rows.set_header({"genre", "file", "year", "id", "score", "sentence1", "sentence2"});
    rows.allow_ragged_rows();
    return stsb_plan();
  }
  fail_input(rows.name(),
             ":1: expected columns sentence1 and sentence2 (with label, score or gold_label), "
             "anchor and positive, or sentence; name them with --columns NAME_IN_FILE=NAME; found ",
             shown(list(columns), 200));
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

/// The class of the current row; nullopt if its annotators had no majority.
std::optional<int> read_label(const RowReader& rows, const Plan& plan) {
  const std::string_view text = rows.text(plan.target_column);
  if (text == "-" || text == "-1") return std::nullopt;
  const auto name = std::find(kLabels.begin(), kLabels.end(), text);
  const double by_name = static_cast<double>(name - kLabels.begin());
  const std::optional<double> value = name != kLabels.end() ? by_name : class_number(text);
  constexpr double kMaxLabel = 1 << 24;
  if (!value || *value != std::floor(*value) || *value < 0 || *value > kMaxLabel) {
    rows.fail_here("expected entailment, neutral, contradiction, or a class number in ",
                   quote(plan.target_column), ", found ", quote(text));
  }
  if (plan.num_labels > 0 && *value >= plan.num_labels) {
    rows.fail_here("label ", shown(text), " is out of range: expected 0 to ", plan.num_labels - 1);
  }
  return static_cast<int>(*value);
}

double read_score(const RowReader& rows, const Plan& plan) {
  const std::string_view text = rows.text(plan.target_column);
  const std::optional<double> value = finite_number(text);
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

void read_row(const RowReader& rows, const Plan& plan, TextDataset& dataset) {
  double target = 0;
  if (plan.target == Target::label) {
    const std::optional<int> label = read_label(rows, plan);
    if (!label) return dataset.count_skipped();
    target = *label;
  } else if (plan.target == Target::score) {
    target = read_score(rows, plan);
  }
  std::array<std::string_view, kMaxColumns> texts;
  for (std::size_t i = 0; i < plan.texts.size(); ++i) {
    texts[i] = rows.whole_text(plan.texts[i]);
    if (plan.needs_texts && strip(texts[i]).empty())
      rows.fail_here("expected a text in ", quote(plan.texts[i]), ", found none");
  }
  dataset.add_row(std::span(texts).first(plan.texts.size()), target);
}

}  // namespace

TextDataset read_dataset(LineReader lines, const ReadOptions& options) {
  if (!(options.score_scale > 0)) {
    fail_input("score scale: expected more than 0, found ", options.score_scale);
  }
  const std::unique_ptr<RowReader> rows =
      open_rows(std::move(lines), parse_renames(options.columns));
  if (options.missing_columns) options.missing_columns->clear();
  Plan plan = make_plan_with_renames(*rows, options);
  plan.needs_texts = options.needs_texts;
  TextDataset dataset(rows->name(), plan.texts, plan.target);
  while (rows->next()) read_row(*rows, plan, dataset);
  if (dataset.size() == 0) {
    fail_input(rows->name(), ": empty: expected at least one row, found none",
               dataset.skipped() > 0 ? str(" (", dataset.skipped(), " without a gold label)") : "");
  }
  dataset.shrink_to_fit();
  return dataset;
}

TextDataset read_dataset(const std::filesystem::path& path, const ReadOptions& options) {
  return read_dataset(LineReader(path), options);
}

}  // namespace ringlet::train
