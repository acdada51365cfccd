#include "ringlet/train/step/best_metric.h"

#include <cmath>
#include <limits>
#include <utility>

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"

namespace ringlet::train {
namespace {

constexpr std::string_view kEvalPrefix = "eval_";

}  // namespace

BestMetric::BestMetric(std::string name, std::optional<bool> greater_is_better)
    : name_(name.empty() ? "loss" : std::move(name)) {
  if (name_.starts_with(kEvalPrefix)) name_.erase(0, kEvalPrefix.size());
  greater_ = greater_is_better.value_or(!name_.ends_with("loss"));
}

void BestMetric::check_named(const std::vector<std::string>& names) const {
  std::string all;
  for (const std::string& name : names) {
    if (name == name_ || name == str(kEvalPrefix, name_)) return;
    all += (all.empty() ? "" : ", ") + name;
  }
  fail_setting("metric_for_best_model", ": expected ", all.empty() ? "an evaluator's" : "one of ",
               all, ", found ", quote(name_));
}

double BestMetric::value(const Metrics& metrics, const comm::Group& group) const {
  std::optional<double> found = find_metric(metrics, str(kEvalPrefix, name_));
  if (!found) found = find_metric(metrics, name_);
  const std::vector<double> mine(found ? 1U : 0U, found.value_or(0));
  const std::vector<double> first = comm::all_gather_values(group, mine)[0];
  if (first.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, of_it] : metrics) names.push_back(name);
    check_named(names);
    fail("[trainer] rank 0 has no metric ", quote(name_));
  }
  return first[0];
}

double BestMetric::improvement(double value, const std::optional<BestModel>& best) const {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  if (!best) return std::numeric_limits<double>::infinity();
  return greater_ ? value - best->metric : best->metric - value;
}

std::string BestMetric::describe() const {
  return str(name_, greater_ ? ", greater" : ", smaller", " is better");
}

}  // namespace ringlet::train
