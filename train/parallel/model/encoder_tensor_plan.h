// The plan that cuts an encoder over the ranks of tensor parallelism.
#pragma once

#include "ringlet/models/config.h"
#include "ringlet/train/parallel/model/tensor_parallel.h"

namespace ringlet::train {

/// Attention by heads and the two dense layers of every encoder layer. With `vocabulary` also the
/// table of words, for its memory: that adds an all-reduce of (T, H) to each forward.
TensorPlan encoder_tensor_plan(const models::EncoderConfig& config, bool vocabulary = false);

}  // namespace ringlet::train
