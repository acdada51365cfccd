#include "ringlet/train/report/evaluation_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "ringlet/core/io/file.h"

namespace ringlet::train {

std::vector<LoggedEvaluation> logged_evaluations(const std::filesystem::path& metrics) {
  std::vector<LoggedEvaluation> rows;
  if (metrics.empty() || !path_exists(metrics)) return rows;
  std::string loss = "-";
  for (const MetricsLine& line : read_metrics(metrics)) {
    const auto is_loss = [](const auto& value) { return value.first == "loss"; };
    if (const auto found = std::ranges::find_if(line.values, is_loss); found != line.values.end()) {
      loss = found->second ? fmt::format("{:.4f}", *found->second) : "nan";
      continue;
    }
    LoggedEvaluation& row = rows.emplace_back(LoggedEvaluation{line.step, line.epoch, loss, {}});
    for (const auto& [name, value] : line.values)
      if (value) row.metrics.emplace_back(name, *value);
  }
  return rows;
}

std::string to_markdown(const std::vector<LoggedEvaluation>& log,
                        std::optional<std::int64_t> bold) {
  std::string first = "| Epoch | Step | Training Loss |", rule = "|:---:|:---:|:---:|", rows;
  for (const auto& metric : log.back().metrics) {
    first += ' ' + metric.first + " |";
    rule += ":---:|";
  }
  for (const LoggedEvaluation& row : log) {
    const char* const mark = bold == row.step ? "**" : "";
    rows += fmt::format("| {0}{1:.4f}{0} | {0}{2}{0} | {0}{3}{0} |", mark, row.epoch, row.step,
                        row.loss);
    for (const auto& metric : log.back().metrics) {
      const auto value = find_metric(row.metrics, metric.first);
      rows += fmt::format(" {0}{1}{0} |", mark, value ? fmt::format("{:.4f}", *value) : "-");
    }
    rows += '\n';
  }
  return first + '\n' + rule + '\n' + rows;
}

}  // namespace ringlet::train
