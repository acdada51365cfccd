// The bytes that a strategy moves in a step, computed from the schedules that it executes.
#pragma once

#include <cstddef>

#include "ringlet/comm/types.h"
#include "ringlet/nn/pack.h"
#include "ringlet/train/parallel/strategy_name.h"

namespace ringlet::train {

/// Bytes that one rank sends in a step.
struct StepTraffic {
  std::size_t gradients = 0;   // 2 P (n - 1) / n under ddp, else half
  std::size_t parameters = 0;  // P (n - 1) / n under zero1 and zero2, about twice that under fsdp
  std::size_t norm = 0;        // block sums of the global norm, 8 bytes for 4096 elements
  std::size_t total() const { return gradients + parameters + norm; }
};

/// The traffic of rank `rank` in a step of one forward and one backward. The backward reaches every
/// parameter of `module`, and the optimizer computes the norm. Gradients of tables count whole: on
/// CPUs only rows that a batch has used are sent, where that is less. `algorithm` is that of the
/// group; native is Error. Strategies none and dp send nothing.
StepTraffic step_traffic(Strategy strategy, nn::Module& module, int rank, int ranks,
                         comm::Algorithm algorithm = comm::Algorithm::direct);

}  // namespace ringlet::train
