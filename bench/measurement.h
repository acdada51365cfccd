// The measurements of a row of the throughput table: a strategy on a number of devices, by round.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_idle.h"
#include "memory.h"
#include "profile.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::bench {

/// The phases of a step, in order.
inline constexpr std::array kPhases{"data", "forward", "backward", "optimizer"};
using PhaseTimes = std::array<std::vector<double>, kPhases.size()>;

/// One round, over all its ranks.
struct Measurement {
  std::vector<double> step_ms;  // of each timed step
  PhaseTimes phase_ms;          // as many per phase; none if phases are not separate
  double real_tokens = 0;       // per step
  double padded_tokens = 0;
  double pairs = 0;                   // rows of two or more texts, trained per step
  double sentences = 0;               // per step: the texts of these rows
  std::size_t peak_memory_bytes = 0;  // of the largest process; 0: unknown for this row
  MemoryStats memory;                 // of the allocator with the highest peak
  StepMemory on_paper;                // of the largest batch; zeros if the model is distributed
  double hf_rows_per_pair = 1;        // dataset rows counted per pair trained
  double exposed_ms = 0;              // per step: waiting for collectives; summation under dp
  double collectives_ms = 0;          // per step: in collectives, overlapped or not; 0 under dp
  double wire_bytes = 0;              // per step: sent by one rank
  /// Variance between devices within a step, averaged over steps; measured without communication.
  double rank_variance_ms2 = 0;
  std::string algorithm;
  std::vector<std::string> processors;  // that threads are pinned to; each set once, "0-1", "3"
  StepTimes times;                      // of a step of the first rank, if it was profiled
  std::vector<std::vector<train::Span>> timeline;  // by rank, if it was recorded
  DeviceIdle idle;                                 // of a GPU, after all timed steps
  // Per step, of the rank with the largest value:
  double data_wait_ms = 0;  // mean, not median: one long wait matters
  double page_faults = 0;
  double mapped_bytes = 0;  // by tensors and scratch
  double threads_started = 0;
  double context_switches = 0;
  double system_allocations = 0;    // of the device's memory, after a bucket's first step
  double replayed = 0;              // 1 if every step was a graph replay
  std::vector<double> replayed_ms;  // of step_ms, those of replayed steps

  std::string to_text() const;
  static Measurement from_text(const std::string& text);
};

/// Figures per step that are added over the ranks.
inline constexpr std::array kSums{&Measurement::real_tokens, &Measurement::padded_tokens,
                                  &Measurement::pairs, &Measurement::sentences};
/// Figures per step of which the rank with the largest counts.
inline constexpr std::array kOfCollectives{&Measurement::exposed_ms, &Measurement::collectives_ms,
                                           &Measurement::wire_bytes};
inline constexpr std::pair<const char*, double Measurement::*> kOfSystem[] = {
    {"data_wait_ms", &Measurement::data_wait_ms},
    {"page_faults", &Measurement::page_faults},
    {"mapped_bytes", &Measurement::mapped_bytes},
    {"threads_started", &Measurement::threads_started},
    {"context_switches", &Measurement::context_switches},
    {"system_allocations", &Measurement::system_allocations},
    {"replayed", &Measurement::replayed}};

/// The share of a step's collectives that is overlapped with computing: 1 - exposed / collectives.
/// At least 0, since a rank may also wait for a peer that has not arrived. Nothing if none ran.
std::optional<double> overlap(const Measurement& measured);

double mean(const std::vector<double>& values);
double median(std::vector<double> values);

/// Combines the ranks' measurements. `together`: a step takes as long as on the slowest rank;
/// otherwise the average. Tokens and pairs are summed; of memory and waits the largest counts.
Measurement merge(const std::vector<Measurement>& ranks, bool together);

struct Row {
  std::string strategy;
  int devices = 1;
  std::string dtype;
  std::string algorithm;  // of the collectives, with the transport: "direct over shm"; or empty
  bool together = true;   // false: devices run separately and concurrently
  std::vector<Measurement> rounds;

  /// All rounds: their steps, means of the figures per step, the largest memory.
  Measurement summary() const;
  /// For all devices together, by the median step.
  double pairs_per_s() const;
  /// The spread of an unconnected device's step around those of its peers in the same step:
  /// standard deviation / mean.
  double spread() const;
  /// How far the steps vary: the range of the middle 80 % over the median. Nothing for one step.
  std::optional<double> step_spread() const;
  /// Whether that is at most half, so that a ratio of the median is a result.
  bool is_steady() const;
};

/// The row's rate over that of the first row of strategy none. Empty without one, or if either is
/// not steady.
std::optional<double> speedup(const Row& row, const std::vector<Row>& rows);
/// Relative to as many unconnected devices; 0 if they were not measured, or either is not steady.
double share_of_machine(const Row& row, const std::vector<Row>& rows);
/// Those with replayed steps, or those without.
std::vector<std::string> strategies_of(const std::vector<Row>& rows, bool replayed);

}  // namespace ringlet::bench
