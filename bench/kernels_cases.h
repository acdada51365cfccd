// The ops of one training step of a sentence encoder, each with the shapes it has there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ringlet/core/tensor.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"

namespace ringlet::bench {

/// What an op reads, and the op. Outputs that lie in inputs (an optimizer's) are returned too.
struct KernelWork {
  std::vector<Tensor> inputs;
  std::function<std::vector<Tensor>(std::vector<Tensor>& inputs)> run;
};

struct KernelCase {
  std::string name;
  std::int64_t calls;  // in one step; 0: fused into others there
  std::function<KernelWork()> prepare;
};

/// A step with SoftmaxLoss on this batch of pairs, on its device, which is the default one;
/// activations in `dtype`, parameters f32.
std::vector<KernelCase> step_cases(const std::string& model, const models::EncoderConfig& config,
                                   const models::PackedBatch& batch, DType dtype, double dropout);

}  // namespace ringlet::bench
