// The memory of an encoder's training, computed on paper: of a step, and of a row of the table.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan.h"
#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/models/config.h"

namespace ringlet::bench {

/// The minimum at the peak of a step, the beginning of backward. It omits everything that grows
/// with neither parameters nor tokens times hidden size: the loss's own tensors, ids, block sums.
struct StepMemory {
  double parameters = 0;  // f32, as the next two
  double gradients = 0;
  double moments = 0;   // AdamW's two
  double sidecars = 0;  // parameters in the dtype of a GPU's products
  double saved = 0;     // by the forward for the backward
  double passing = 0;   // gradients at the widest place of the last layer

  double total() const { return parameters + gradients + moments + sidecars + saved + passing; }
};

/// For one device with the whole model; `tokens` of a batch include padding, `dtype` is that of
/// activations.
StepMemory step_memory(const models::EncoderConfig& config, std::int64_t tokens, DType dtype,
                       DeviceType device);

/// The memory that a step really takes: tensors at the peak. For replayed steps: the tensors
/// between steps plus the memory of the graphs, including gaps.
inline double held(const MemoryStats& memory) {
  return static_cast<double>(std::max(memory.peak, memory.allocated + memory.graphs));
}

/// Bytes of weights, gradients and two moments over all ranks of a row. Whole units that a rank
/// holds while it uses them are included.
double state_bytes(const Plan& plan, const models::EncoderConfig& config);

/// InputError if this host has too little memory for a row's state_bytes(). `share_here`: the share
/// of its devices on this host.
void check_memory(const Plan& plan, const models::EncoderConfig& config, double share_here);

}  // namespace ringlet::bench
