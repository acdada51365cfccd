#include "ringlet/models/losses/embedding_loss.h"

#include "ringlet/autograd/checkpoint.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::models {
EmbeddingLoss::EmbeddingLoss(SentenceEncoder encoder, LossTraits traits, Value value)
    : encoder_(std::move(encoder)), traits_(std::move(traits)), value_(std::move(value)) {
  register_module("", encoder_.modules());
}

void EmbeddingLoss::take_settings(const nn::Module& original) {
  negatives_ = dynamic_cast<const EmbeddingLoss&>(original).negatives_;
}

Variable EmbeddingLoss::forward(const PackedBatch& batch) {
  if (!cuts(batch)) return of_embeddings(encoder_(batch), batch);
  PackedBatch placed = batch;
  if (placed.labels.defined()) placed.labels = placed.labels.to(device());
  return of_embeddings(embed(batch), placed);
}

// Piece by piece; ordered by column like the whole batch's.
Variable EmbeddingLoss::embed(const PackedBatch& batch) const {
  const std::int64_t rows = batch.forward_rows;
  std::int64_t pieces = std::max<std::int64_t>(1, (batch.rows + rows - 1) / rows);
  // Forwards may be collective: a rank with fewer rows then adds empty pieces.
  if (const auto sharding = nn::sharding_of(*this)) pieces = sharding->forwards_together(pieces);
  if (pieces == 1) return encoder_(batch.to(device()));
  std::vector<std::vector<Variable>> columns(static_cast<std::size_t>(batch.columns));
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = std::min(batch.rows, piece * rows);
    const std::int64_t end = std::min(batch.rows, begin + rows);
    const PackedBatch part = batch.rows_between(begin, end).to(device());
    const Variable embeddings =
        autograd::checkpoint([encoder = encoder_, part](const Variable&) { return encoder(part); },
                             Variable(empty({0}, DType::f32, device())));
    for (std::int64_t c = 0; c < batch.columns; ++c)
      columns[static_cast<std::size_t>(c)].push_back(
          autograd::slice(embeddings, c * part.rows, (c + 1) * part.rows));
  }
  std::vector<Variable> ordered;
  for (const std::vector<Variable>& column : columns)
    ordered.insert(ordered.end(), column.begin(), column.end());
  return autograd::concat(ordered, 0);
}

bool EmbeddingLoss::compares_peers() const {
  if (!traits_.compares_rows || negatives_ == Negatives::local || !autograd::grad_enabled())
    return false;
  const auto sharding = nn::sharding_of(*this);
  return devices_ || (sharding && sharding->group().size() > 1);
}

// The ranks or devices that share the global batch with this one.
comm::Group EmbeddingLoss::peers() const {
  if (!compares_peers()) return {};
  return devices_ ? devices_() : nn::sharding_of(*this)->group();
}

}  // namespace ringlet::models
