#include "kernels_batch.h"

#include <cmath>
#include <span>
#include <vector>

namespace ringlet::bench {

models::PackedBatch typical_batch(const Lengths& lengths, std::int64_t rows,
                                  const models::EncoderConfig& config) {
  const double mean = lengths.mean_tokens_per_pair() * static_cast<double>(rows);
  const auto draw = [&](std::int64_t step) {
    return lengths.batch(step, rows, config.vocab_size, config.max_tokens(), false);
  };
  models::PackedBatch best = draw(0);
  const auto distance = [&](const models::PackedBatch& batch) {
    return std::abs(static_cast<double>(batch.tokens()) - mean);
  };
  for (std::int64_t step = 1; step < 256; ++step)
    if (models::PackedBatch batch = draw(step); distance(batch) < distance(best))
      best = std::move(batch);
  return best;
}

models::PackedBatch even_batch(std::int64_t length, std::int64_t rows,
                               const models::EncoderConfig& config) {
  models::BatchBuilder builder(2);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
  const std::span<const std::int32_t> texts[] = {ids, ids};
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>((row * length + static_cast<std::int64_t>(i)) %
                                         config.vocab_size);
    builder.add_row(texts, row);
    builder.add_label(row % 3);
  }
  return builder.build();
}

}  // namespace ringlet::bench
