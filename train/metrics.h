// Named figures of a run, and metrics.jsonl, the file they are kept in: one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::train {

/// In the order in which they are to be shown.
using Metrics = std::vector<std::pair<std::string, double>>;

/// The figure called `name`, if there is one.
std::optional<double> find_metric(const Metrics& metrics, std::string_view name);

/// When an evaluation happens.
struct EvaluationPoint {
  std::int64_t step = 0;
  double epoch = 0;                   // epochs done, with their fraction
  std::filesystem::path output = {};  // where evaluators write tables; empty: nowhere
  /// Ranks that evaluate together: each takes a share of the rows, all get the figures, rank 0
  /// writes tables.
  comm::Group group = {};
};

/// Appends a line to a CSV file, which gets `header` first where it is new; its folder is made.
/// Values are written with the fewest digits that read back the same. InputError when it cannot.
void append_csv(const std::filesystem::path& path, std::string_view header,
                const std::vector<double>& values);

/// Takes the lines of steps after `step` out of a table of append_csv, as a stopped run may have
/// left them, and a last line that was cut off. A table without a column "steps" stays as it is.
void trim_csv(const std::filesystem::path& path, std::int64_t step);

class MetricsWriter {
 public:
  /// Continues `path` with the step after `step`: lines of later steps, which a stopped run may
  /// have left, go, and so does a last line that was cut off. With step 0 the file starts empty.
  MetricsWriter(std::filesystem::path path, std::int64_t step);

  /// Appends {"step": …, "epoch": …, NAME: …}, integers without a fraction, null for what is not
  /// finite. InputError when the file cannot be written.
  void write(std::int64_t step, double epoch, const Metrics& metrics);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace ringlet::train
