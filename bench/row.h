// One row of the throughput table: a strategy on a number of devices, by round.
#pragma once

#include <string>
#include <vector>

#include "measurement.h"

namespace ringlet::bench {

struct Row {
  std::string strategy;
  int devices = 1;
  std::string dtype;
  std::string algorithm;  // of the collectives, with the transport: "direct over shm"; or empty
  bool together = true;   // false: devices run separately and concurrently
  std::vector<Measurement> rounds;

  /// For all devices together, by the median step.
  double pairs_per_s() const;
};

/// Null if there is none of this strategy.
const Row* find_row(const std::vector<Row>& rows, const std::string& strategy);
/// The reference of speed-ups: `none`, with replayed steps if the device supports them; else the
/// first.
const Row& base_row(const std::vector<Row>& rows);

/// All rounds of a row: their steps, means of the figures per step, the largest memory.
Measurement summary(const Row& row);

/// The spread of an unconnected device's step around those of its peers in the same step: standard
/// deviation / mean.
double spread(const Row& row);

}  // namespace ringlet::bench
