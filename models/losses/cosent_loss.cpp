#include "ringlet/models/losses/cosent_loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ringlet/autograd/functions/cosine_similarity.h"
#include "ringlet/autograd/functions/reduce.h"
#include "ringlet/models/losses/columns.h"

namespace ringlet::models {
namespace {

struct OrderValue {
  double loss;
  std::vector<double> gradient;  // of each similarity
};

/// Rows in ascending order of score. visit(begin, end) for each group of equal scores.
template <class Visit>
void for_groups(const std::vector<std::size_t>& order, const std::vector<double>& scores,
                Visit&& visit) {
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    visit(begin, end);
  }
}

// The exponents are of differences to the largest and to the smallest similarity.
OrderValue order_value(const std::vector<double>& similarities, const std::vector<double>& scores,
                       double scale) {
  const std::size_t n = similarities.size();
  if (n == 0) return {0, {}};
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return scores[i]; });
  const auto [low, high] = std::ranges::minmax(similarities);
  std::vector<double> up(n), down(n), below(n), above(n);
  for (std::size_t i = 0; i < n; ++i) {
    up[i] = std::exp(scale * (similarities[i] - high));
    down[i] = std::exp(scale * (low - similarities[i]));
  }
  double before = 0, sum = 0;  // of `up` with lower scores
  for_groups(order, scores, [&](std::size_t begin, std::size_t end) {
    double group = 0;
    for (std::size_t i = begin; i < end; ++i) {
      below[order[i]] = before;
      sum += down[order[i]] * before;
      group += up[order[i]];
    }
    before += group;
  });
  double after = 0;  // of `down` with higher scores
  for_groups(order, scores, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) after += down[order[i]];
  });
  for_groups(order, scores, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) after -= down[order[i]];
    for (std::size_t i = begin; i < end; ++i) above[order[i]] = after;
  });
  if (sum == 0) return {0, std::vector<double>(n)};  // all scores are equal
  const double exponent = scale * (high - low) + std::log(sum);
  const double loss = std::max(exponent, 0.0) + std::log1p(std::exp(-std::abs(exponent)));
  const double factor = scale * std::exp(scale * (high - low) - loss);
  std::vector<double> gradient(n);
  for (std::size_t i = 0; i < n; ++i)
    gradient[i] = factor * (up[i] * above[i] - down[i] * below[i]);
  return {loss, std::move(gradient)};
}

/// |cos + sin| of unit vectors, each in halves that are a real and an imaginary part.
Variable angle_similarity(const Variable& x, const Variable& y) {
  const auto halves = [](const Variable& v) {
    const Variable even = v.size(1) % 2 == 0 ? v : autograd::pad(v, 1, 0, 1);
    const std::int64_t half = even.size(1) / 2;
    return autograd::split(even, {half, half}, 1);
  };
  const auto u = halves(autograd::normalize(x)), v = halves(autograd::normalize(y));
  return autograd::abs(autograd::sum(u[0] * v[0] + u[1] * v[1] + u[1] * v[0] - u[0] * v[1], {1}));
}

}  // namespace

Variable OrderLoss::of_similarities(const std::vector<Variable>& similarities,
                                    const std::vector<Tensor>& scores,
                                    const PackedBatch& batch) const {
  const GlobalRows rows = global_rows(batch);
  std::vector<double> all_similarities, all_scores;
  const auto append = [&](std::vector<double>& to, const Tensor& values) {
    const auto gathered = rows.gather_values(values).to_vector<double>();
    to.insert(to.end(), gathered.begin(), gathered.end());
  };
  for (const Variable& part : similarities) append(all_similarities, part.tensor());
  for (const Tensor& part : scores) append(all_scores, part);
  const OrderValue value = order_value(all_similarities, all_scores, scale_);

  const double weight = rows.weight_in(batch);
  std::vector<double> own;
  for (std::size_t part = 0; part < similarities.size(); ++part) {
    const auto begin =
        value.gradient.begin() + static_cast<std::ptrdiff_t>(part) * rows.size() + rows.begin();
    own.insert(own.end(), begin, begin + rows.own());
  }
  const Variable joined = autograd::concat(similarities, 0);
  const auto like = [&](const std::vector<double>& values, const Shape& shape) {
    return tensor(values, shape, Device{}).to(joined.dtype()).to(joined.device());
  };
  const double share = static_cast<double>(rows.own()) / static_cast<double>(batch.global_rows);
  return autograd::record(
      kind(), like({share * value.loss}, {}), {joined},
      [gradient = ringlet::scale(like(own, joined.shape()), weight)](
          const Tensor& grad, autograd::Gradients& grads) { grads[0].set(mul(gradient, grad)); });
}

Variable CoSENTLoss::of_embeddings(const Variable& embeddings, const PackedBatch& batch) const {
  RINGLET_CHECK(batch.labels.defined(), "[CoSENTLoss] the batch has no scores");
  const auto [u, v] = columns<2>("CoSENTLoss", embeddings, batch);
  const Variable cosines = autograd::sum(autograd::normalize(u) * autograd::normalize(v), {1});
  return of_similarities({cosines}, {batch.labels}, batch);
}

Variable AnglELoss::of_embeddings(const Variable& embeddings, const PackedBatch& batch) const {
  RINGLET_CHECK(batch.columns >= 2, "[AnglELoss] rows are an anchor and one or more texts, not ",
                batch.columns, " column");
  RINGLET_CHECK(batch.labels.defined() || batch.columns > 2, "[AnglELoss] pairs have no scores");
  const Variable anchor = column(embeddings, batch, 0);
  const Tensor first = batch.labels.defined() ? batch.labels.to(DType::f32)
                                              : ones({batch.rows}, DType::f32, embeddings.device());
  std::vector<Variable> similarities;
  std::vector<Tensor> scores;
  for (std::int64_t c = 1; c < batch.columns; ++c) {
    similarities.push_back(angle_similarity(anchor, column(embeddings, batch, c)));
    scores.push_back(c == 1 ? first : 1.0 - first);
  }
  return of_similarities(similarities, scores, batch);
}

}  // namespace ringlet::models
