// One rank of one row: a model, its data and a strategy, stepped and timed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "measurement.h"
#include "options.h"
#include "ringlet/comm/group.h"
#include "ringlet/core/device_time.h"
#include "ringlet/core/resource_use.h"
#include "ringlet/train/optimizer.h"
#include "ringlet/train/parallel/attached_strategy.h"
#include "ringlet/train/step_graphs.h"
#include "source.h"

namespace ringlet::bench {

/// A row of the table, before it is measured.
struct Plan {
  std::string name;
  train::Strategy strategy = train::Strategy::none;
  int devices = 1;
  bool together = true;  // false: ranks train side by side and exchange nothing

  /// Processes that run it, on GPUs threads unless a launcher started them: dp has its devices in
  /// one.
  int ranks() const { return strategy == train::Strategy::dp ? 1 : devices; }
};

/// The rows that --strategy and --devices ask for; InputError names what is known.
std::vector<Plan> plan_rows(const ThroughputOptions& options);

class Runner {
 public:
  Runner(const ThroughputOptions& options, const Plan& plan, const comm::Group& group);

  /// Counts from here on, as do the steps that follow.
  void start_timing();
  /// One that is not timed.
  void warm_up() { step(false); }
  void timed_step(StepProfile* profile);
  /// Error where a loss or a gradient was no number.
  Measurement measured();
  /// Of so many more steps of a GPU, which slows this process down from here on; Error where
  /// nothing can be recorded.
  DeviceIdle record_idle(int steps);

 private:
  /// When the device was done with each phase; the first, before any. Null inside a graph.
  using Times = std::array<std::unique_ptr<DeviceTime>, kPhases.size() + 1>;

  /// `again`: with the batch of the step before.
  Times step(bool again);
  /// From forward to update, phase by phase or, on a GPU, as one.
  void run_batch(Times& times);
  void run_graph();
  void run_phases(Times& times);
  void count_tokens();
  /// Takes from `batch_` what a step counts.
  void count_step();
  void add_times(Measurement& out) const;
  /// False from the first step on that was not replayed.
  bool replay(int steps);

  Device device_;
  DType dtype_;

  std::unique_ptr<Source> source_;
  comm::Group group_;
  bool together_;
  bool dealt_out_;  // the model or its state, over several devices
  train::AttachedStrategy strategy_;
  train::AdamW optimizer_;
  std::optional<train::StepGraphs> graphs_;     // of a GPU
  const models::PackedBatch* batch_ = nullptr;  // of the latest step, on the host
  models::PackedBatch moved_;                   // the same where it is trained
  Tensor loss_;                                 // of the latest step
  std::int64_t most_tokens_ = 0;                // of a batch as it is trained, the first aside
  Measurement sum_;
  // Of the timed steps:
  std::vector<Times> times_;
  std::vector<Tensor> losses_;
  std::uint64_t system_allocations_ = 0;  // behind the first of a bucket
  // Before the first timed step:
  comm::GroupStats before_;
  double exchanged_before_ = 0;
  ResourceUse used_before_;
  std::size_t replayed_before_ = 0;
};

/// Warms up and times one round on all ranks of a row, in processes of its own, so that one model
/// is in memory at a time and the next row starts afresh; a GPU's round runs in this process, as a
/// child could not use the driver of its parent, and so does that of ranks that a launcher started,
/// each of which calls it. Throws what went wrong on any rank.
/// `last`: nothing is timed behind it, so a GPU's records are taken, too.
Measurement run_round(const ThroughputOptions& options, const Plan& plan, bool last);

/// What `measure` gives on the first of so many ranks, placed and joined as those of a round; all
/// that a launcher started call it.
using MeasureRank = std::function<std::string(const comm::Group&)>;
std::string on_ranks(const ThroughputOptions& options, int ranks, const MeasureRank& measure,
                     int devices_each = 1);

/// What `measure` gives on the device, of a CPU in a process of its own: one that has started
/// threads would make a poor parent of ranks.
double on_device(const ThroughputOptions& options, double (*measure)(Device device));

}  // namespace ringlet::bench
