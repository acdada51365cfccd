// The memory of an encoder's training, computed on paper: of a step, and of a row of the table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/models/transformer.h"
#include "ringlet/train/parallel/strategy_name.h"

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

/// For one device with the whole encoder; `tokens` of a batch include padding, `dtype` is that of
/// activations.
StepMemory step_memory(models::Transformer& encoder, std::int64_t tokens, DType dtype,
                       DeviceType device);

/// The memory that a step really takes: tensors at the peak. For replayed steps: the tensors
/// between steps plus the memory of the graphs, including gaps.
inline double held(const MemoryStats& memory) {
  return static_cast<double>(std::max(memory.peak, memory.allocated + memory.graphs));
}

/// A row of the table, before it is measured.
struct Plan {
  std::string name;
  train::Strategy strategy = train::Strategy::none;
  int devices = 1;
  bool together = true;  // false: ranks train concurrently and exchange nothing
  int stages = 1;        // of a pipeline: as many as devices, or one
  int slices = 1;        // of each layer: the same
  /// Whether all ranks train the same rows.
  bool same_rows() const { return stages * slices > 1; }

  /// Processes of the row; on GPUs threads, except under a launcher. All devices of dp are in one.
  int ranks() const { return strategy == train::Strategy::dp ? 1 : devices; }
};

/// Bytes of weights, gradients and two moments over all ranks of a row, at least.
double state_bytes(const Plan& plan, const models::EncoderConfig& config);

/// InputError if this host has too little memory for a row's state_bytes(). `share_here`: the share
/// of its devices on this host.
void check_memory(const Plan& plan, const models::EncoderConfig& config, double share_here);

}  // namespace ringlet::bench
