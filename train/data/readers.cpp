#include "ringlet/train/data/readers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/train/data/lines.h"
#include "ringlet/train/data/retrieval.h"
#include "ringlet/train/data/rows.h"

namespace ringlet::train {
namespace {

/// The columns of a data set that the reader takes.
struct ColumnPlan {
  std::vector<std::string> texts;
  Target target = Target::none;
  std::string target_column = {};
  double scale = 1;          // of scores
  double min_score = -1;     // a share of the scale
  const char* assumed = "";  // why the scale is 5 without ReadOptions; empty where it is not
  int num_labels = 0;        // 0: any

  /// The texts' and the target's.
  std::vector<std::string> columns() const {
    std::vector<std::string> all = texts;
    if (target != Target::none) all.push_back(target_column);
    return all;
  }
};

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

std::optional<double> finite_number(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// By the names of the columns, or the values of a first row without names. InputError for other
/// columns, and for numbered ones with a gap.
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
  if (names.size() == 3 && finite_number(strip(names[2]))) {
    rows.set_header({"sentence1", "sentence2", "score"});
    return stsb_plan(options, "no header");
  }
  if (names.size() >= kStsbFields && finite_number(strip(names[kStsbScoreField]))) {
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

/// InputError for a column from number `first` on, the key of a later JSON object, that would have
/// been used in the first one.
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

/// Also true and false as JSON and pandas write them.
std::optional<double> class_number(std::string_view text) {
  if (text == "true" || text == "True") return 1;
  if (text == "false" || text == "False") return 0;
  return finite_number(text);
}

[[noreturn]] void refuse_rename(const RowReader& rows) {
  const auto& [from, to] = rows.missing_renames().front();
  fail_input(rows.name(), ":1: no column ", quote(from), " to use as ", quote(to));
}

/// A file may lack columns that are renamed for other files, if there is a plan without them.
ColumnPlan plan_with_renames(RowReader& rows, const ReadOptions& options) {
  const Renames& missing = rows.missing_renames();
  if (missing.empty()) return plan_columns(rows, options);
  if (!options.missing_columns) refuse_rename(rows);
  *options.missing_columns = missing;
  try {
    return plan_columns(rows, options);
  } catch (const InputError&) {
    refuse_rename(rows);
  }
}

/// The class of the current row; nullopt if its annotators had no majority.
std::optional<int> read_label(const RowReader& rows, const ColumnPlan& plan) {
  const std::string_view text = rows.text(plan.target_column);
  const bool none = text == "-" || text == "-1";
  if (none && plan.target_column == "gold_label") return std::nullopt;
  const auto name = std::find(kNliLabels.begin(), kNliLabels.end(), text);
  const double by_name = static_cast<double>(name - kNliLabels.begin());
  const std::optional<double> value = name != kNliLabels.end() ? by_name : class_number(text);
  constexpr double kMaxLabel = 1 << 24;
  if (!value || *value != std::floor(*value) || *value < 0 || *value > kMaxLabel) {
    rows.fail_here("expected entailment, neutral, contradiction, or a class number in ",
                   quote(plan.target_column), ", found ", quote(text),
                   none ? "; only a column 'gold_label' may have it for no label" : "");
  }
  if (plan.num_labels > 0 && *value >= plan.num_labels) {
    rows.fail_here("label ", shown(text), " is out of range: expected 0 to ", plan.num_labels - 1);
  }
  return static_cast<int>(*value);
}

double read_score(const RowReader& rows, const ColumnPlan& plan) {
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

/// Reads the rows of a file and counts what it leaves out.
class DatasetReader {
 public:
  DatasetReader(RowReader& rows, const ReadOptions& options)
      : rows_(rows),
        plan_(plan_with_renames(rows, options)),
        splits_(rows.name(), has_column(rows.columns(), kSplitColumn), options.split),
        needs_texts_(options.needs_texts),
        dataset_(rows.name(), plan_.texts, plan_.target) {}

  TextDataset read() {
    std::size_t known = rows_.fields().size();
    while (rows_.next()) {
      check_late_columns(rows_, known);
      known = rows_.fields().size();
      if (splits_.takes(rows_.find(kSplitColumn))) read_row();
    }
    FileReport report = this->report();
    splits_.finish(report);
    check_rows();
    dataset_.set_report(std::move(report));
    dataset_.shrink_to_fit();
    return std::move(dataset_);
  }

 private:
  void read_row() {
    double target = 0;
    if (plan_.target == Target::label) {
      const std::optional<int> label = read_label(rows_, plan_);
      unlabelled_ += label ? 0 : 1;
      if (!label) return;
      target = *label;
    } else if (plan_.target == Target::score) {
      target = read_score(rows_, plan_);
      best_score_ = std::max(best_score_, target);
    }
    std::array<std::string_view, kMaxColumns> texts;
    for (std::size_t i = 0; i < plan_.texts.size(); ++i) {
      texts[i] = rows_.whole_text(plan_.texts[i]);
      const bool empty = strip(texts[i]).empty();
      if (needs_texts_ && empty)
        rows_.fail_here("expected a text in ", quote(plan_.texts[i]), ", found none");
      empty_texts_ += empty ? 1 : 0;
    }
    dataset_.add_row(std::span(texts).first(plan_.texts.size()), target);
  }

  FileReport report() const {
    std::vector<std::string> used = plan_.columns();
    if (splits_.has_column()) used.emplace_back(kSplitColumn);
    FileReport report = rows_.report(used);
    report.count = dataset_.size();
    report.skipped = {{unlabelled_, "no gold label"}};
    report.empty_texts = empty_texts_;
    if (plan_.target != Target::score || plan_.scale == kAnyScale) return report;
    report.scale = str(plan_.scale);
    if (*plan_.assumed != '\0') report.scale += str(", assumed (", plan_.assumed, ")");
    return report;
  }

  void check_rows() const {
    if (dataset_.size() == 0)
      fail_input(rows_.name(), ": empty: expected at least one row, found none",
                 unlabelled_ > 0 ? str(" (", unlabelled_, " without a gold label)") : "");
    if (*plan_.assumed != '\0' && best_score_ <= 1 / plan_.scale)
      fail_input(rows_.name(), ": the scores lie in 0 to 1, but with ", plan_.assumed,
                 " a scale of ", plan_.scale, " is assumed: expected --score-scale 1 or ",
                 plan_.scale);
  }

  RowReader& rows_;
  ColumnPlan plan_;
  SplitFilter splits_;
  bool needs_texts_;
  TextDataset dataset_;
  std::size_t unlabelled_ = 0, empty_texts_ = 0;
  double best_score_ = -1;
};

}  // namespace

TextDataset read_dataset(LineReader lines, const ReadOptions& options) {
  if (options.score_scale && !(*options.score_scale > 0))
    fail_setting("score_scale", ": expected more than 0, found ", *options.score_scale);
  const std::unique_ptr<RowReader> rows =
      open_rows(std::move(lines), parse_renames(options.columns));
  if (options.missing_columns) options.missing_columns->clear();
  return DatasetReader(*rows, options).read();
}

TextDataset read_dataset(const std::filesystem::path& path, const ReadOptions& options) {
  return read_dataset(LineReader(path), options);
}

}  // namespace ringlet::train
