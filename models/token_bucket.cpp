#include "ringlet/models/token_bucket.h"

#include <vector>

#include "ringlet/core/ops/attention.h"

namespace ringlet::models {
namespace {

/// Rows of `from` (n, ...) followed by zeros, `rows` in total.
Tensor with_zeros(const Tensor& from, std::int64_t rows) {
  std::vector<std::int32_t> values = from.to_vector<std::int32_t>();
  const std::int64_t width = from.dim() == 2 ? from.size(1) : 1;
  values.resize(static_cast<std::size_t>(rows * width));
  return tensor(values, from.dim() == 2 ? Shape{rows, width} : Shape{rows}, Device{});
}

Tensor differences(const std::vector<std::int32_t>& starts) {
  std::vector<std::int32_t> lengths;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) lengths.push_back(starts[s + 1] - starts[s]);
  return tensor(lengths, {static_cast<std::int64_t>(lengths.size())}, Device{});
}

}  // namespace

PackedBatch filled_up(const PackedBatch& batch, std::int64_t tokens) {
  RINGLET_CHECK(batch.sentences() > 0, "[batch] no sentence to fill up to ", tokens, " tokens");
  RINGLET_CHECK(tokens >= batch.tokens(), "[batch] ", batch.tokens(), " tokens cannot be filled up",
                " to ", tokens);
  check_cu_seqlens("batch", batch.cu_seqlens, batch.tokens());
  if (batch.lengths.defined()) check_lengths("batch", batch.lengths, batch.cu_seqlens);
  PackedBatch out = batch;
  std::vector<std::int32_t> starts = batch.cu_seqlens.to_vector<std::int32_t>();
  if (!batch.lengths.defined()) out.lengths = differences(starts);
  starts.back() = static_cast<std::int32_t>(tokens);
  out.cu_seqlens = tensor(starts, batch.cu_seqlens.shape(), Device{});
  // Every vocabulary has id 0, and every table of positions a row 0.
  out.token_ids = with_zeros(batch.token_ids, tokens);
  out.token_index = with_zeros(batch.token_index, tokens);
  out.counted_position = with_zeros(batch.counted_position, tokens);
  out.positions = with_zeros(batch.positions, tokens);
  return out;
}

}  // namespace ringlet::models
