// The bytes that a training step of an encoder cannot do without, on paper.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ringlet/core/backend.h"
#include "ringlet/core/dtype.h"
#include "ringlet/models/config.h"

namespace ringlet::bench {

/// Elements of a layer's four weights (H, H) and two (H, I).
inline std::int64_t layer_weights(const models::EncoderConfig& config) {
  return config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size);
}

/// At the moment of a step at which most is in use, the beginning of backward. What grows with
/// neither parameters nor tokens times hidden size is left aside: the loss's own, ids, block sums.
struct StepMemory {
  double parameters = 0;  // f32, as the next two
  double gradients = 0;
  double moments = 0;   // AdamW's two
  double sidecars = 0;  // parameters as a GPU's products take them
  double saved = 0;     // by the forward for its backward
  double passing = 0;   // gradients on their way through the last layer's widest place

  double total() const { return parameters + gradients + moments + sidecars + saved + passing; }
};

/// Of one device that has all of the model; `tokens` are those of a batch, padding included, and
/// `dtype` that of activations.
StepMemory step_memory(const models::EncoderConfig& config, std::int64_t tokens, DType dtype,
                       DeviceType device);

/// What a step has really taken: tensors at the peak; where steps are replayed, what is there
/// between them and what their graphs share, holes included.
inline double held(const MemoryStats& memory) {
  return static_cast<double>(std::max(memory.peak, memory.allocated + memory.graphs));
}

}  // namespace ringlet::bench
