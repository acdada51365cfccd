// Which steps are alike: a graph captured for one runs the others.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "ringlet/core/dtype.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/token_bucket.h"

namespace ringlet::train {

/// All of a step's shapes, and what of it lies in the host's memory. A bucket of rows is one row
/// wide: a dummy row would be a negative of all others, so every loss had to mask it in every step,
/// to save what a graph costs once; and a run has two numbers of rows for each data set, that of
/// its batches and that of an epoch's last.
struct StepKey {
  std::int64_t tokens = 0;        // of the bucket
  std::int64_t length_class = 0;  // of the longest sentence
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  /// What the loss divides by, by value. A loader's batches for one device have their rows there;
  /// what says otherwise must not find their graph.
  std::int64_t global_rows = 0;
  std::size_t dataset = 0;  // which loss
  std::optional<DType> labels = {};
  DType dtype = DType::f32;  // of the activations
  bool training = true;

  auto operator<=>(const StepKey&) const = default;
};

/// None for a batch that fits no bucket.
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
