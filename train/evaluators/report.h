// The figures of one evaluation: metrics by name, and a line of a table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/train/report/metrics.h"

namespace ringlet::train {

class Report {
 public:
  /// `name` is of the data: metrics are called "NAME_KEY", or "KEY" without a name.
  explicit Report(std::string name) : name_(std::move(name)) {}

  void add_metric(const std::string& key, double value);
  void add_column(const std::string& header, double value);
  /// The metric `key` compares models.
  void set_primary(const std::string& key);

  const Metrics& metrics() const { return metrics_; }
  const Metrics::value_type& primary() const { return metrics_[primary_]; }

  /// Rank 0 appends a line to TABLE[_NAME]_ENDING.csv in the output folder, if there is one. Its
  /// first columns are epoch and steps.
  void write(const std::string& table, const EvaluationPoint& at,
             const std::string& ending = "results", std::string_view line_end = "\r\n") const;

 private:
  std::string prefixed(const std::string& key) const;

  std::string name_;
  Metrics metrics_;
  std::size_t primary_ = 0;
  std::string header_ = "epoch,steps";
  std::vector<double> line_;
};

}  // namespace ringlet::train
