#include <functional>

#include "ringlet/core/ops/reduce.h"
#include "ringlet/models/losses/columns.h"
#include "ringlet/models/losses/losses.h"

namespace ringlet::models {
namespace {

/// Every own row (n, H) with every row: (n, N). The squares of euclidean distances are
/// |a|^2 - 2 a b + |b|^2, at least 0. `self` (n, 1) is the place of each own row.
Variable all_distances(Distance distance, const Variable& own, const nn::GlobalRows& rows,
                       const Tensor& self) {
  const Variable all = rows.gather(own, 1);  // (N, H)
  if (distance == Distance::cosine) return 1.0 - autograd::cosine_similarity_matrix(own, all);
  const Variable products = autograd::matmul(own, all, {.trans_b = true});
  // Squares with the rounding of the products, so that a row is at distance 0 from itself.
  const Variable squares = autograd::gather(products, 1, self);  // (n, 1)
  const Variable of_all = autograd::view(rows.gather(squares, 1), {1, rows.size()});
  return root(autograd::relu(squares + of_all - products * 2));
}

/// The gradient goes to the first of equal elements, as with torch's max(dim).
Variable pick(const Variable& x, const Tensor& index) {
  return autograd::view(autograd::gather(x, 1, index), {x.size(0)});
}

Variable batch_hard_triplet(const MarginOptions& options, const Variable& embeddings,
                            const PackedBatch& batch, const EmbeddingLoss& loss) {
  check_labels(loss.kind(), batch, DType::i64);
  const auto [own] = columns<1>(loss.kind(), embeddings, batch);
  const nn::GlobalRows rows = loss.global_rows(batch);
  if (rows.size() == 0) return autograd::sum(own);  // without an element to pick
  const Tensor labels = rows.gather_values(batch.labels);
  const Tensor same = eq(batch.labels.view({rows.own(), 1}), labels.view({1, rows.size()}));
  const auto numbers = [&](std::int64_t begin, std::int64_t n) {
    return arange(static_cast<double>(begin), static_cast<double>(begin + n), 1, DType::i64,
                  labels.device());
  };
  const Tensor places = numbers(rows.begin(), rows.own()).view({rows.own(), 1});
  const Tensor self = eq(places, numbers(0, rows.size()).view({1, rows.size()}));
  const Variable distances = all_distances(options.distance, own, rows, places);  // (n, N)
  const auto weight = [&](const Tensor& mask) { return Variable(mask.to(distances.dtype())); };
  const Variable positives = distances * (weight(same) - weight(self));
  const Variable farthest =
      autograd::view(pick(distances, argmax(distances.tensor(), 1, true)), {rows.own(), 1});
  const Variable negatives = distances + farthest * weight(same);
  const Variable hardest_positive = pick(positives, argmax(positives.tensor(), 1, true));
  const Variable hardest_negative = pick(negatives, argmin(negatives.tensor(), 1, true));
  const Variable each = autograd::relu(hardest_positive - hardest_negative + options.margin);
  return autograd::sum(each) / static_cast<double>(batch.global_rows);
}

}  // namespace

BatchHardTripletLoss::BatchHardTripletLoss(SentenceEncoder encoder, MarginOptions options)
    : EmbeddingLoss(std::move(encoder),
                    {.kind = "BatchHardTripletLoss",
                     .settings = options.settings(),
                     .compares_rows = true,
                     .min_rows = 2},
                    std::bind_front(batch_hard_triplet, options)) {
  RINGLET_CHECK(options.distance != Distance::manhattan,
                "[BatchHardTripletLoss] distance: expected euclidean or cosine, found manhattan");
}

}  // namespace ringlet::models
