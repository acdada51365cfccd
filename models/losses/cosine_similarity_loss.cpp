#include "ringlet/models/losses/cosine_similarity_loss.h"

#include "ringlet/autograd/functions/cosine_similarity.h"
#include "ringlet/autograd/functions/reduce.h"
#include "ringlet/models/losses/columns.h"

namespace ringlet::models {

Variable CosineSimilarityLoss::of_embeddings(const Variable& embeddings,
                                             const PackedBatch& batch) const {
  check_labels("CosineSimilarityLoss", batch, DType::f32);
  const auto [u, v] = columns<2>("CosineSimilarityLoss", embeddings, batch);  // (rows, H)
  const Variable error = autograd::cosine_similarity(u, v) - Variable(batch.labels);
  return autograd::sum(autograd::square(error)) / static_cast<double>(batch.global_rows);
}

}  // namespace ringlet::models
