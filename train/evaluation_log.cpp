#include "ringlet/train/evaluation_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ringlet/core/io/file.h"
#include "ringlet/train/data/lines.h"

namespace ringlet::train {

std::vector<LoggedEvaluation> logged_evaluations(const std::filesystem::path& metrics) {
  std::vector<LoggedEvaluation> rows;
  if (metrics.empty() || !path_exists(metrics)) return rows;
  std::string loss = "-";
  LineReader lines(metrics);
  while (const auto line = lines.next()) {
    const auto json = nlohmann::ordered_json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json.contains("epoch"))
      lines.fail_here("expected an object with a step and an epoch");
    if (json.contains("loss")) {
      loss = json["loss"].is_number() ? fmt::format("{:.4f}", json["loss"].get<double>()) : "nan";
      continue;
    }
    LoggedEvaluation& row =
        rows.emplace_back(LoggedEvaluation{json["step"], json["epoch"], loss, {}});
    for (const auto& [name, value] : json.items())
      if (name != "step" && name != "epoch" && value.is_number())
        row.metrics.emplace_back(name, value.get<double>());
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
