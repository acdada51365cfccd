#include "ringlet/models/losses/contrastive_loss.h"

#include <algorithm>
#include <numeric>

#include "ringlet/models/losses/columns.h"

namespace ringlet::models {
namespace {

Variable distances_of(const char* loss, Distance distance, const Variable& embeddings,
                      const PackedBatch& batch) {
  check_labels(loss, batch);
  const auto [u, v] = columns<2>(loss, embeddings, batch);
  return pair_distances(distance, u, v, PairForm::torch);
}

Variable squared_violation(const Variable& distances, double margin) {
  return autograd::square(autograd::relu(margin - distances));
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The largest distance of a positive and the smallest of a negative.
struct Bounds {
  double positive, negative;
};

Bounds bounds(const std::vector<double>& distances, const std::vector<double>& labels) {
  std::vector<double> positives, negatives;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == 1) positives.push_back(distances[i]);
    if (labels[i] == 0) negatives.push_back(distances[i]);
  }
  const auto or_mean = [](const auto& values, const auto& other, auto extreme) {
    if (!values.empty()) return *extreme(values.begin(), values.end());
    return other.empty() ? 0 : mean(other);
  };
  return {or_mean(positives, negatives,
                  [](auto begin, auto end) { return std::max_element(begin, end); }),
          or_mean(negatives, positives,
                  [](auto begin, auto end) { return std::min_element(begin, end); })};
}

}  // namespace

Variable ContrastiveLoss::of_embeddings(const Variable& embeddings,
                                        const PackedBatch& batch) const {
  const Variable distances = distances_of(kind(), options_.distance, embeddings, batch);
  const Variable positive(batch.labels.to(distances.dtype()));
  const Variable each = positive * autograd::square(distances) +
                        (1.0 - positive) * squared_violation(distances, options_.margin);
  return autograd::sum(each) / (2 * static_cast<double>(batch.global_rows));
}

Variable OnlineContrastiveLoss::of_embeddings(const Variable& embeddings,
                                              const PackedBatch& batch) const {
  const Variable distances = distances_of(kind(), options_.distance, embeddings, batch);
  const nn::GlobalRows rows = global_rows(batch);
  const auto own = distances.tensor().to_vector<double>();
  const auto labels = batch.labels.to_vector<double>();
  const Bounds bound = bounds(rows.gather_values(distances.tensor()).to_vector<double>(),
                              rows.gather_values(batch.labels).to_vector<double>());
  std::vector<double> hard_positive, hard_negative;
  for (std::size_t i = 0; i < own.size(); ++i) {
    hard_positive.push_back(labels[i] == 1 && own[i] > bound.negative);
    hard_negative.push_back(labels[i] == 0 && own[i] < bound.positive);
  }
  const auto weight = [&](const std::vector<double>& values) {
    return Variable(
        tensor(values, {batch.rows}, Device{}).to(distances.dtype()).to(distances.device()));
  };
  const Variable each = weight(hard_positive) * autograd::square(distances) +
                        weight(hard_negative) * squared_violation(distances, options_.margin);
  return autograd::sum(each) * rows.weight_in(batch.global_rows);
}

}  // namespace ringlet::models
