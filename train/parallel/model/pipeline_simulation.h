// A pipeline schedule in time, without devices: when each rank computes, waits and keeps.
#pragma once

#include <cstddef>
#include <vector>

#include "ringlet/train/parallel/model/pipeline_schedule.h"

namespace ringlet::train {

/// Times of a chunk's computations, in any unit. B takes input_gradient + weight_gradient.
struct PipelineCosts {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  double of(Computation what) const;
  double sum() const { return forward + input_gradient + weight_gradient; }
};

struct TimedAction {
  PipelineAction action;
  double start = 0, end = 0;
};

struct PipelineTimes {
  std::vector<std::vector<TimedAction>> ranks;
  double makespan = 0;
  std::size_t messages = 0;  // between ranks
  /// By rank: the most chunks times micro-batches at one time with F done and neither B nor I.
  std::vector<int> peak_activations;
  /// The same for W: what the gradients of weights need.
  std::vector<int> peak_weight_inputs;

  /// The share of the ranks' time without computation.
  double bubble() const;
};

/// Each pair of neighbouring stages has two lanes, one per direction, with room for
/// `lane_messages`. A rank with a message that finds no room waits until the receiver has taken an
/// earlier one; with room for 0, until it takes this one. Error, with the action at which each rank
/// waits, for a deadlock or a message in another order than its receiver's.
PipelineTimes simulate_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape,
                                const PipelineCosts& costs = {}, int lane_messages = 1);

}  // namespace ringlet::train
