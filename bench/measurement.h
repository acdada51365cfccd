// What one round of a row measured, on all its ranks.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "device_idle.h"
#include "profile.h"
#include "ringlet/core/backend.h"
#include "step_memory.h"

namespace ringlet::bench {

/// Of a step, in their order.
inline constexpr std::array kPhases{"data", "forward", "backward", "optimizer"};
using PhaseTimes = std::array<std::vector<double>, kPhases.size()>;

struct Measurement {
  std::vector<double> step_ms;  // of each timed step
  PhaseTimes phase_ms;          // as many for each phase, none where phases are not apart
  double real_tokens = 0;       // per step
  double padded_tokens = 0;
  double pairs = 0;                   // rows of two texts or more, trained per step
  double sentences = 0;               // per step: the texts of these rows
  std::size_t peak_memory_bytes = 0;  // of the largest process; 0: not known of this row
  MemoryStats memory;                 // of the allocator with the highest peak
  StepMemory on_paper;                // of the largest batch; nothing where a model is dealt out
  double hf_rows_per_pair = 1;        // dataset rows counted per pair trained
  double exposed_ms = 0;              // per step: waiting for collectives; adding up under dp
  double collectives_ms = 0;          // per step: in collectives, hidden or not; 0 under dp
  double wire_bytes = 0;              // per step: sent by one rank
  /// Of unconnected devices: between those of a step, the mean over the steps.
  double rank_variance_ms2 = 0;
  std::string algorithm;
  std::vector<std::string> processors;  // that threads keep to: each set once, "0-1", "3"
  StepTimes times;                      // of a step of the first rank, where it was profiled
  DeviceIdle idle;                      // of a GPU, behind all that is timed
  // Per step, of the rank that has most:
  double data_wait_ms = 0;  // mean, not median: one long wait matters
  double page_faults = 0;
  double mapped_bytes = 0;  // by tensors and scratch
  double threads_started = 0;
  double context_switches = 0;
  double system_allocations = 0;  // of the device's memory, behind a bucket's first step
  double replayed = 0;            // 1 where every step was a graph's

  std::string to_text() const;
  static Measurement from_text(const std::string& text);
};

/// What is counted apart on each rank, and said of the one that has most.
inline constexpr std::array kLargest{
    &Measurement::data_wait_ms,    &Measurement::page_faults,      &Measurement::mapped_bytes,
    &Measurement::threads_started, &Measurement::context_switches, &Measurement::system_allocations,
    &Measurement::replayed};

/// Of a step's collectives the share that hides behind computing: 1 - exposed / all of them, at
/// least 0, as who waits may wait for a rank that has not come yet. Nothing where none ran.
std::optional<double> overlap(const Measurement& measured);

double mean(const std::vector<double>& values);
double median(std::vector<double> values);

/// The ranks' measurements as one. `together`: a step takes as long as on the slowest rank;
/// otherwise as long as on average. Tokens and pairs add up, memory and waits are the largest.
Measurement merge(const std::vector<Measurement>& ranks, bool together);

}  // namespace ringlet::bench
