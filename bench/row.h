// One row of the throughput table: a strategy on so many devices, round by round.
#pragma once

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

/// Null where there is none of this strategy.
const Row* find_row(const std::vector<Row>& rows, const std::string& strategy);
/// What speed-ups are over: `none`, whose steps are replayed where a device can; else the first.
const Row& base_row(const std::vector<Row>& rows);

/// All rounds of a row as one.
struct Summary {
  std::vector<double> step_ms;
  PhaseTimes phase_ms;
  Measurement mean;  // tokens, pairs, sentences, bytes and times per step; memory is the largest
};
Summary summary(const Row& row);

/// How a rank's step strays from that of the others in the same step, standard deviation over mean:
/// of unconnected devices as they did, of one device as spread_over_rounds() has it. 0 where the
/// row does not tell.
double spread(const Row& row);

}  // namespace ringlet::bench
