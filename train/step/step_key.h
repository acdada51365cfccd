// Keys of steps: a graph that was captured for one step runs every step with the same key.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "ringlet/core/base/dtype.h"
#include "ringlet/models/batch.h"

namespace ringlet::train {

/// All shapes of a step, and its values in host memory. The number of rows is not rounded up: a
/// dummy row would be a negative of every other row. Every loss would have to mask it in every
/// step, only to save the cost of one graph. A run has two numbers of rows for each data set, that
/// of its batches and that of an epoch's last one.
struct StepKey {
  std::int64_t tokens = 0;        // of the bucket
  std::int64_t length_class = 0;  // of the longest sentence
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  /// The divisor of the loss, by value. A loader's batches for one device have their rows there; a
  /// batch with another divisor must not find their graph.
  std::int64_t global_rows = 0;
  std::size_t dataset = 0;  // which loss
  std::optional<DType> labels = {};
  DType dtype = DType::f32;  // of the activations
  bool training = true;

  auto operator<=>(const StepKey&) const = default;
};

/// Nothing for a batch that fits no bucket.
inline std::optional<StepKey> step_key(const models::PackedBatch& batch, DType dtype,
                                       bool training) {
  const std::int64_t tokens = models::bucket_of(batch);
  const std::int64_t longest = models::length_class(batch.max_length);
  if (tokens == 0) return std::nullopt;
  StepKey key{tokens,        longest,      batch.rows, batch.columns, batch.global_rows,
              batch.dataset, std::nullopt, dtype,      training};
  if (batch.labels.defined()) key.labels = batch.labels.dtype();
  return key;
}

}  // namespace ringlet::train
