#include "ringlet/models/losses/multiple_negatives_ranking_loss.h"

#include "ringlet/autograd/functions/normalize.h"
#include "ringlet/autograd/functions/product_cross_entropy.h"
#include "ringlet/models/losses/columns.h"

namespace ringlet::models {

Variable MultipleNegativesRankingLoss::of_embeddings(const Variable& embeddings,
                                                     const PackedBatch& batch) const {
  RINGLET_CHECK(batch.columns >= 2, "[", kind(), "] rows are anchor, positive and negatives, not ",
                batch.columns, " column");
  const nn::GlobalRows rows = global_rows(batch);
  const Variable unit = autograd::normalize(embeddings);
  const auto find = [&](const Variable& own, const Variable& all) {
    const Tensor targets =
        arange(static_cast<double>(rows.begin()), static_cast<double>(rows.begin() + rows.own()), 1,
               DType::i64, all.device());
    return autograd::product_cross_entropy(own, all, targets, options_.scale,
                                           static_cast<double>(batch.global_rows));
  };
  const Variable anchors = column(unit, batch, 0);
  const Variable candidates =
      rows.gather(autograd::slice(unit, batch.rows, batch.sentences()), batch.columns - 1);
  const Variable forward = find(anchors, candidates);
  if (!options_.symmetric) return forward;
  return (forward + find(column(unit, batch, 1), rows.gather(anchors, 1))) / 2;
}

}  // namespace ringlet::models
