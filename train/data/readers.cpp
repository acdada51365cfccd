#include "ringlet/train/data/readers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ringlet/core/base/number.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/train/data/column_plan.h"
#include "ringlet/train/data/lines.h"
#include "ringlet/train/data/split_filter.h"
#include "ringlet/train/data/text.h"

namespace ringlet::train {
namespace {

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
