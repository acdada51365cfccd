// The rows of the throughput table, and their measuring.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measurement.h"
#include "memory.h"
#include "options.h"
#include "ringlet/comm/group.h"

namespace ringlet::bench {

/// The rows that --strategy and --devices select; InputError lists the valid names.
std::vector<Plan> plan_rows(const ThroughputOptions& options);

/// Warms up and times the steps of this rank of a row. Then it may record this many more steps of a
/// GPU, which slows this process down afterwards. Error if a loss or a gradient was NaN or
/// infinite.
Measurement measure_rank(const ThroughputOptions& options, const Plan& plan,
                         const comm::Group& group, int idle_steps);

/// Warms up and times one round on all ranks of a row, in separate processes. So one model is in
/// memory at a time and each row starts from the same state. A GPU's round runs in this process, as
/// a child could not use its parent's driver. So does a round under a launcher; every rank calls
/// it. Throws the error of any rank.
/// `last`: nothing is timed afterwards, so a GPU's activity is recorded, too.
Measurement run_round(const ThroughputOptions& options, const Plan& plan, bool last);

/// The result of `measure` on the first of this many ranks, pinned and connected as those of a
/// round. All ranks of a launcher call it.
using MeasureRank = std::function<std::string(const comm::Group&)>;
std::string on_ranks(const ThroughputOptions& options, int ranks, const MeasureRank& measure,
                     int devices_each = 1);

}  // namespace ringlet::bench
