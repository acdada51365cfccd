// Named figures of a run, and metrics.jsonl, the file that keeps them: one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::train {

class EventWriter;

/// In the order of display.
using Metrics = std::vector<std::pair<std::string, double>>;

/// The figure called `name`, if there is one.
std::optional<double> find_metric(const Metrics& metrics, std::string_view name);

/// The sum of each figure over the ranks, added in rank order: the same bits on each.
Metrics sum_over_ranks(const Metrics& mine, const comm::Group& group);

/// When an evaluation happens.
struct EvaluationPoint {
  std::int64_t step = -1;             // -1: outside training
  double epoch = -1;                  // epochs done, with their fraction; -1: outside training
  std::filesystem::path output = {};  // where evaluators write tables; empty: nowhere
  /// Ranks that evaluate together: each takes a share of the rows, all receive the figures, rank 0
  /// writes tables.
  comm::Group group = {};
};

/// Appends a line to a CSV file; a new file gets `header` first, and its folder is created. Values
/// are written with the fewest digits that read back the same. InputError if it fails.
void append_csv(const std::filesystem::path& path, std::string_view header,
                const std::vector<double>& values, std::string_view line_end = "\n");

/// Removes the lines of steps after `step`, and an incomplete last line, from a table of
/// append_csv: a stopped run may have left them. A table without a column "steps" stays unchanged.
void trim_csv(const std::filesystem::path& path, std::int64_t step);

/// A line of metrics.jsonl; null is a value that was not finite.
struct MetricsLine {
  std::int64_t step = 0;
  double epoch = 0;
  std::vector<std::pair<std::string, std::optional<double>>> values;
};
/// InputError "FILE:LINE: …" for a line without a step and an epoch.
std::vector<MetricsLine> read_metrics(const std::filesystem::path& path);

class MetricsWriter {
 public:
  /// Continues `path` after `step`. Lines of later steps and without a step, and an incomplete last
  /// line, which a stopped run may have left, are removed. With step 0 the file starts empty. With
  /// `tensorboard` the same figures go to event files in its folder (see EventWriter). Unless
  /// `evaluated`, the evaluation of `step` follows, and its line is removed, too.
  MetricsWriter(std::filesystem::path path, std::int64_t step, bool tensorboard = false,
                bool evaluated = true);

  /// Appends {"step": …, "epoch": …, NAME: …}: integers without a fraction, null for values that
  /// are not finite. InputError when the file cannot be written.
  void write(std::int64_t step, double epoch, const Metrics& metrics);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  std::shared_ptr<EventWriter> events_;  // null: none
};

}  // namespace ringlet::train
