// The minimum memory of an encoder's training step, computed on paper.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/models/config.h"

namespace ringlet::bench {

/// Elements of a layer's four weights (H, H) and two (H, I).
inline std::int64_t layer_weights(const models::EncoderConfig& config) {
  return config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size);
}

/// At the peak of a step, the beginning of backward. It omits everything that grows with neither
/// parameters nor tokens times hidden size: the loss's own tensors, ids, block sums.
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

}  // namespace ringlet::bench
