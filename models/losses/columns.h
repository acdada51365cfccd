// Columns of a batch's embeddings, and checks that losses share.
#pragma once

#include <array>

#include "ringlet/autograd/functions.h"
#include "ringlet/models/batch.h"

namespace ringlet::models {

/// Column `c` of the embeddings (S, H): (rows, H).
inline Variable column(const Variable& embeddings, const PackedBatch& batch, std::int64_t c) {
  return autograd::slice(embeddings, c * batch.rows, (c + 1) * batch.rows);
}

template <std::size_t n>
std::array<Variable, n> columns(const char* loss, const Variable& embeddings,
                                const PackedBatch& batch) {
  RINGLET_CHECK_EQ(batch.columns, static_cast<std::int64_t>(n), "[", loss, "] sentences per row");
  std::array<Variable, n> out;
  for (std::size_t c = 0; c < n; ++c)
    out[c] = column(embeddings, batch, static_cast<std::int64_t>(c));
  return out;
}

inline void check_labels(const char* loss, const PackedBatch& batch) {
  RINGLET_CHECK(batch.labels.defined(), "[", loss, "] the batch has no labels");
  check_shape(loss, "labels", batch.labels, {batch.rows});
}

inline void check_labels(const char* loss, const PackedBatch& batch, DType dtype) {
  check_labels(loss, batch);
  RINGLET_CHECK_EQ(batch.labels.dtype(), dtype, "[", loss,
                   "] labels (classes are i64, scores f32)");
}

}  // namespace ringlet::models
