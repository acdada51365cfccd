#include "ringlet/train/evaluators/evaluator.h"

#include <algorithm>

namespace ringlet::train {

std::vector<std::string> column_texts(const TextDataset& dataset, std::size_t column) {
  std::vector<std::string> texts;
  for (std::size_t row = 0; row < dataset.size(); ++row)
    texts.emplace_back(dataset.texts(row)[column]);
  return texts;
}

void Report::add_metric(const std::string& key, double value) {
  metrics_.emplace_back(prefixed(key), value);
}

void Report::add_column(const std::string& header, double value) {
  header_ += ',' + header;
  line_.push_back(value);
}

void Report::set_primary(const std::string& key) {
  const auto found = std::ranges::find(metrics_, prefixed(key), &Metrics::value_type::first);
  RINGLET_CHECK(found != metrics_.end(), "[evaluator] no metric ", key);
  primary_ = static_cast<std::size_t>(found - metrics_.begin());
}

void Report::write(const std::string& table, const EvaluationPoint& at, const std::string& ending,
                   std::string_view line_end) const {
  if (at.output.empty() || at.group.rank() != 0) return;
  std::vector<double> line{at.epoch, static_cast<double>(at.step)};
  line.insert(line.end(), line_.begin(), line_.end());
  append_csv(at.output / (table + (name_.empty() ? "" : '_' + name_) + '_' + ending + ".csv"),
             header_, line, line_end);
}

std::string Report::prefixed(const std::string& key) const {
  return name_.empty() ? key : name_ + '_' + key;
}

}  // namespace ringlet::train
