// The link between the ranks of a run, timed in that run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "options.h"
#include "scaling_model.h"

namespace ringlet::bench {

struct LinkTimes {
  int ranks = 1;
  /// (bytes of f32, seconds), ascending.
  std::vector<std::pair<double, double>> all_reduce;

  /// From the largest size: bytes that each rank sends per second, nccl-tests' busbw.
  double rate() const;

  std::string to_text() const;
  static LinkTimes from_text(const std::string& text);
};

/// All-reduces of a few sizes, some hundred ms in total; every rank calls it.
LinkTimes time_link(const comm::Group& group, Device device);

/// The model's link, with these times. A CPU's ranks compute with the cores that also move bytes.
Link link_of(const LinkTimes& times, const ThroughputOptions& options);

}  // namespace ringlet::bench
