// The batch of pairs that the ops of a step are measured with.
#pragma once

#include <cstdint>

#include "lengths.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"

namespace ringlet::bench {

/// The batch of the first 256 whose tokens are nearest to the mean of the histogram.
models::PackedBatch typical_batch(const Lengths& lengths, std::int64_t rows,
                                  const models::EncoderConfig& config);
/// All sentences of `length` tokens, whatever ids.
models::PackedBatch even_batch(std::int64_t length, std::int64_t rows,
                               const models::EncoderConfig& config);

}  // namespace ringlet::bench
