// The ops of one training step of a sentence encoder, with the shapes of that step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ringlet/core/tensor.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"

namespace ringlet::bench {

/// An op and its inputs. Outputs stored in inputs (an optimizer's) are returned too.
struct KernelWork {
  std::vector<Tensor> inputs;
  std::function<std::vector<Tensor>(std::vector<Tensor>& inputs)> run;
};

struct KernelCase {
  std::string name;
  std::int64_t calls;  // per step; 0: fused into other ops there
  std::function<KernelWork()> prepare;
};

/// A step with SoftmaxLoss on this batch of pairs, on the batch's device, which must be the
/// default; activations in `dtype`, parameters f32.
std::vector<KernelCase> step_cases(const std::string& model, const models::EncoderConfig& config,
                                   const models::PackedBatch& batch, DType dtype, double dropout);

}  // namespace ringlet::bench
