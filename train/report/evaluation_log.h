// The evaluations of a run, read from its metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/train/report/metrics.h"

namespace ringlet::train {

/// An evaluation, and the training loss that was logged before.
struct LoggedEvaluation {
  std::int64_t step = 0;
  double epoch = 0;
  std::string loss = "-";
  Metrics metrics;
};

/// In the file's order; none without a file. InputError for a line that is none of metrics.jsonl.
std::vector<LoggedEvaluation> logged_evaluations(const std::filesystem::path& metrics);

/// A line for each evaluation, that of step `bold` in bold, with the figures of the last one.
std::string to_markdown(const std::vector<LoggedEvaluation>& log, std::optional<std::int64_t> bold);

}  // namespace ringlet::train
