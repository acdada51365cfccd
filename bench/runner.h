// One rank of one row: a model, its data and a strategy, stepped and timed.
#pragma once

#include <memory>

#include "measurement.h"
#include "options.h"
#include "ringlet/comm/group.h"
#include "ringlet/core/resource_use.h"
#include "ringlet/train/optimizer.h"
#include "ringlet/train/parallel/attached_strategy.h"
#include "source.h"

namespace ringlet::bench {

/// A row of the table, before it is measured.
struct Plan {
  std::string name;
  train::Strategy strategy = train::Strategy::none;
  int devices = 1;
  bool together = true;  // false: ranks train side by side and exchange nothing

  /// Processes that run it: dp has its devices in one.
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
  void warm_up() { step(); }
  void timed_step(Profile* profile);
  Measurement measured() const;

 private:
  /// Milliseconds of each phase.
  std::array<double, kPhases.size()> step();

  std::unique_ptr<Source> source_;
  comm::Group group_;
  bool together_;
  train::AttachedStrategy strategy_;
  train::AdamW optimizer_;
  const models::PackedBatch* batch_ = nullptr;  // of the latest step
  Measurement sum_;
  // Before the first timed step:
  comm::GroupStats before_;
  double exchanged_before_ = 0;
  ResourceUse used_before_;
};

/// Warms up and times one round on all ranks of a row, in processes of its own, so that one model
/// is in memory at a time and the next row starts afresh. Throws what went wrong on any rank.
Measurement run_round(const ThroughputOptions& options, const Plan& plan);

/// What `measure` gives on a device's threads, in a process of its own: one that has started
/// threads would make a poor parent of ranks.
double in_a_process(const ThroughputOptions& options, double (*measure)());

}  // namespace ringlet::bench
