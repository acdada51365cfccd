#include "ringlet/models/losses/triplet_loss.h"

#include "ringlet/models/losses/columns.h"

namespace ringlet::models {

Variable TripletLoss::of_embeddings(const Variable& embeddings, const PackedBatch& batch) const {
  const auto [anchor, positive, negative] = columns<3>("TripletLoss", embeddings, batch);
  const auto distances = [this, &from = anchor](const Variable& other) {
    return pair_distances(options_.distance, from, other, PairForm::sentence_transformers);
  };
  const Variable near = distances(positive), far = distances(negative);
  return autograd::sum(autograd::relu(near - far + options_.margin)) /
         static_cast<double>(batch.global_rows);
}

}  // namespace ringlet::models
