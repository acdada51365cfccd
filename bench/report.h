// What the throughput bench prints and writes: one row per strategy.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "measurement.h"

namespace ringlet::bench {

struct Row {
  std::string strategy;
  int devices = 1;
  std::string dtype;
  std::string algorithm;  // of the collectives and over what: "direct over shm"; empty: none run
  bool together = true;   // false: each device on its own, side by side
  std::vector<Measurement> rounds;

  /// Trained by all devices, by the median step.
  double pairs_per_s() const;
};

/// The table, Markdown. Speed-ups are against the first row; the share of the machine is against
/// the row of as many unconnected devices, if there is one.
std::string to_markdown(const std::vector<Row>& rows);
/// `settings` are written as they are, beside the rows.
void write_json(const std::filesystem::path& path, const std::vector<Row>& rows,
                const std::map<std::string, std::string>& settings);

}  // namespace ringlet::bench
