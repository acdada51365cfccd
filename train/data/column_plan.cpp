#include "ringlet/train/data/column_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "ringlet/core/base/number.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/train/data/retrieval.h"
#include "ringlet/train/data/split_filter.h"
#include "ringlet/train/data/text.h"

namespace ringlet::train {
namespace {

using ColumnNames = std::vector<std::string>;

const ColumnNames kPair{"sentence1", "sentence2"};
constexpr double kStsbScale = 5;
constexpr std::size_t kStsbScoreField = 4;  // genre, file, year, id, score, sentence1, sentence2
constexpr std::size_t kStsbFields = 7;

bool has_pair(const ColumnNames& names) {
  return has_column(names, "sentence1") && has_column(names, "sentence2");
}

/// 2 for "negative_2" and "negative2".
std::optional<int> number_of(std::string_view name, std::string_view base) {
  if (!name.starts_with(base)) return std::nullopt;
  name.remove_prefix(base.size());
  if (name.starts_with('_')) name.remove_prefix(1);
  const bool digits = name.find_first_not_of("0123456789") == name.npos;
  return digits ? parse_number<int>(name) : std::nullopt;
}

/// The columns with a number behind `base`, which begin with 0 or 1, in their order.
ColumnNames numbered(const RowReader& rows, std::string_view base) {
  std::set<std::pair<int, std::string>> found;
  for (const std::string& name : rows.columns())
    if (const auto number = number_of(name, base)) found.emplace(*number, name);
  ColumnNames names;
  int next = found.empty() ? 0 : std::min(found.begin()->first, 1);
  for (const auto& [number, name] : found) {
    if (number < next)
      fail_input(rows.name(), ":1: columns ", quote(names.back()), " and ", quote(name),
                 " have one number");
    if (number > next)
      fail_input(rows.name(), ":1: expected a column with number ", next, " before ", quote(name));
    names.push_back(name);
    ++next;
  }
  return names;
}

/// `why`: of the scale where the options have none.
ColumnPlan stsb_plan(const ReadOptions& options, const char* why) {
  ColumnPlan plan{kPair, Target::score, "score"};
  if (options.score_scale) {
    plan.scale = *options.score_scale;
  } else {
    plan.scale = kStsbScale;
    plan.min_score = 0;
    plan.assumed = why;
  }
  return plan;
}

ColumnNames text_columns(const RowReader& rows, const ColumnNames& names) {
  if (!has_column(names, "anchor"))
    return has_pair(names) ? numbered(rows, "sentence") : ColumnNames{"sentence"};
  if (!has_column(names, "positive"))
    fail_input(rows.name(), ":1: expected a column 'positive', found ", rows.shown_columns());
  ColumnNames texts{"anchor", "positive"};
  if (has_column(names, "negative")) texts.emplace_back("negative");
  std::ranges::move(numbered(rows, "negative"), std::back_inserter(texts));
  return texts;
}

ColumnPlan named_plan(const RowReader& rows, const ColumnNames& names, const ReadOptions& options) {
  ColumnPlan plan{text_columns(rows, names)};
  if (plan.texts.size() > kMaxColumns)
    fail_input(rows.name(), ":1: expected at most ", kMaxColumns, " texts a row, found ",
               plan.texts.size());
  const bool label = has_column(names, "label"), score = has_column(names, "score");
  if (label && score)
    fail_input(rows.name(),
               ":1: expected a column 'label' or 'score', found both: rename one away");
  if (label || score) plan.target = label ? Target::label : Target::score;
  if (label || score) plan.target_column = label ? "label" : "score";
  plan.scale = options.score_scale.value_or(1);
  plan.num_labels = options.num_labels;
  return plan;
}

bool is_number(std::string_view text) {
  const auto value = parse_number<double>(strip(text));
  return value && std::isfinite(*value);
}

}  // namespace

std::vector<std::string> ColumnPlan::columns() const {
  std::vector<std::string> all = texts;
  if (target != Target::none) all.push_back(target_column);
  return all;
}

ColumnPlan plan_columns(RowReader& rows, const ReadOptions& options) {
  const ColumnNames names = rows.columns();
  if (has_pair(names) && has_column(names, "gold_label")) {
    rows.allow_ragged_rows();
    ColumnPlan plan{kPair, Target::label, "gold_label"};
    plan.num_labels = static_cast<int>(kNliLabels.size());
    return plan;
  }
  if (has_pair(names) && has_column(names, "score") && has_column(names, "genre"))
    return stsb_plan(options, "a column 'genre'");
  if (has_pair(names) || has_column(names, "anchor") || has_column(names, "sentence"))
    return named_plan(rows, names, options);
  if (names.size() == 3 && is_number(names[2])) {
    rows.set_header({"sentence1", "sentence2", "score"});
    return stsb_plan(options, "no header");
  }
  if (names.size() >= kStsbFields && is_number(names[kStsbScoreField])) {
    rows.set_header({"genre", "file", "year", "id", "score", "sentence1", "sentence2"});
    rows.allow_ragged_rows();
    return stsb_plan(options, "no header");
  }
  refuse_trec(rows);
  fail_input(rows.name(),
             ":1: expected columns sentence1 and sentence2 (with label, score or gold_label), "
             "anchor and positive, or sentence; name them with --columns NAME_IN_FILE=NAME; found ",
             rows.shown_columns());
}

void check_late_columns(const RowReader& rows, std::size_t first) {
  constexpr std::array<std::string_view, 7> kNames{"anchor", "positive",   "negative", "label",
                                                   "score",  "gold_label", "genre"};
  for (std::size_t i = first; i < rows.fields().size(); ++i) {
    const auto& [in_file, name] = rows.fields()[i];
    if (std::ranges::find(kNames, name) != kNames.end() || name == kSplitColumn ||
        name == "sentence" || number_of(name, "sentence") || number_of(name, "negative"))
      rows.fail_here("the first row has no ", quote(in_file),
                     ": expected the same columns in every row");
  }
}

}  // namespace ringlet::train
