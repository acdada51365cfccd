// The batch of pairs for measuring the ops of a step.
#pragma once

#include <cstdint>

#include "lengths.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"

namespace ringlet::bench {

/// The one of 256 batches with the number of tokens nearest to the histogram's mean.
models::PackedBatch typical_batch(const Lengths& lengths, std::int64_t rows,
                                  const models::EncoderConfig& config);
/// Sentences of `length` tokens, with arbitrary ids.
models::PackedBatch even_batch(std::int64_t length, std::int64_t rows,
                               const models::EncoderConfig& config);

}  // namespace ringlet::bench
