#include "ringlet/models/losses/multiple_negatives_ranking_loss.h"

#include "ringlet/autograd/functions/cosine_similarity.h"
#include "ringlet/autograd/functions/cross_entropy.h"
#include "ringlet/models/losses/columns.h"

namespace ringlet::models {

Variable MultipleNegativesRankingLoss::forward(const PackedBatch& batch) {
  RINGLET_CHECK(batch.columns >= 2, "[", kind(), "] rows are anchor, positive and negatives, not ",
                batch.columns, " column");
  return of_embeddings(encoder_(batch), batch);
}

Variable MultipleNegativesRankingLoss::of_embeddings(const Variable& embeddings,
                                                     const PackedBatch& batch) const {
  const Variable anchors = column(embeddings, batch, 0);  // (rows, H)
  const Variable candidates = autograd::slice(embeddings, batch.rows, batch.sentences());  // (C, H)
  const Variable scores =
      autograd::cosine_similarity_matrix(anchors, candidates) * scale_;  // (rows, C)
  const Tensor own = arange(0, static_cast<double>(batch.rows), 1, DType::i64, scores.device());
  return autograd::cross_entropy(scores, own, static_cast<double>(batch.global_rows));
}

}  // namespace ringlet::models
