#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "ringlet/autograd/functions.h"
#include "ringlet/autograd/node.h"
#include "ringlet/models/losses/embedding_loss.h"
#include "ringlet/models/losses/losses.h"

namespace ringlet::models {
namespace {

struct OrderValue {
  double loss;
  std::vector<double> gradient;  // of each similarity
};

constexpr double kLogOfZero = -std::numeric_limits<double>::infinity();

/// ln(e^a + e^b)
double log_add(double a, double b) {
  const auto [low, high] = std::minmax({a, b});
  return low == kLogOfZero ? high : high + std::log1p(std::exp(low - high));
}

/// Rows of equal score, in ascending order of score.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<double>& scores) {
  std::map<double, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < scores.size(); ++i) groups[scores[i]].push_back(i);
  std::vector<std::vector<std::size_t>> rows;
  for (auto& [score, of_score] : groups) rows.push_back(std::move(of_score));
  return rows;
}

// Sums are kept as logarithms: differences of similarities times a scale may be large.
OrderValue order_value(const std::vector<double>& similarities, const std::vector<double>& scores,
                       double scale) {
  const std::size_t n = similarities.size();
  const auto groups = groups_of(scores);
  std::vector<double> below(n), above(n), gradient(n);
  double loss = 0, sum = kLogOfZero;  // of exp(scale s) with lower scores
  for (const auto& group : groups) {
    for (const std::size_t i : group) {
      below[i] = sum;
      loss = log_add(loss, sum - scale * similarities[i]);
    }
    for (const std::size_t i : group) sum = log_add(sum, scale * similarities[i]);
  }
  sum = kLogOfZero;  // of exp(-scale s) with higher scores
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    for (const std::size_t i : *group) above[i] = sum;
    for (const std::size_t i : *group) sum = log_add(sum, -scale * similarities[i]);
  }
  for (std::size_t i = 0; i < n; ++i)
    gradient[i] = scale * (std::exp(above[i] + scale * similarities[i] - loss) -
                           std::exp(below[i] - scale * similarities[i] - loss));
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

/// Similarities and scores (rows) of this rank, in one or more parts.
Variable of_similarities(double scale, const std::vector<Variable>& similarities,
                         const std::vector<Tensor>& scores, const PackedBatch& batch,
                         const EmbeddingLoss& loss) {
  const nn::GlobalRows rows = loss.global_rows(batch);
  std::vector<double> all_similarities, all_scores;
  const auto append = [&](std::vector<double>& to, const Tensor& values) {
    const auto gathered = rows.gather_values(values).to_vector<double>();
    to.insert(to.end(), gathered.begin(), gathered.end());
  };
  for (const Variable& part : similarities) append(all_similarities, part.tensor());
  for (const Tensor& part : scores) append(all_scores, part);
  for (const double score : all_scores)
    RINGLET_CHECK(std::isfinite(score), "[", loss.kind(), "] a score is ", score);
  const OrderValue value = order_value(all_similarities, all_scores, scale);

  const double weight = rows.weight_in(batch.global_rows);
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
      loss.kind(), like({share * value.loss}, {}), {joined},
      [gradient = ringlet::scale(like(own, joined.shape()), weight)](
          const Tensor& grad, autograd::Gradients& grads) { grads[0].set(mul(gradient, grad)); });
}

Variable cosent(double scale, const Variable& embeddings, const PackedBatch& batch,
                const EmbeddingLoss& loss) {
  check_labels(loss.kind(), batch);
  const auto [u, v] = columns<2>(loss.kind(), embeddings, batch);
  const Variable cosines = autograd::sum(autograd::normalize(u) * autograd::normalize(v), {1});
  return of_similarities(scale, {cosines}, {batch.labels}, batch, loss);
}

Variable angle(double scale, const Variable& embeddings, const PackedBatch& batch,
               const EmbeddingLoss& loss) {
  RINGLET_CHECK(batch.columns >= 2, "[AnglELoss] rows are an anchor and one or more texts, not ",
                batch.columns, " column");
  if (batch.labels.defined() || batch.columns == 2) check_labels(loss.kind(), batch);
  const Variable anchor = column(embeddings, batch, 0);
  const Tensor first = batch.labels.defined() ? batch.labels.to(DType::f32)
                                              : ones({batch.rows}, DType::f32, embeddings.device());
  std::vector<Variable> similarities;
  std::vector<Tensor> scores;
  for (std::int64_t c = 1; c < batch.columns; ++c) {
    similarities.push_back(angle_similarity(anchor, column(embeddings, batch, c)));
    scores.push_back(c == 1 ? first : 1.0 - first);
  }
  return of_similarities(scale, similarities, scores, batch, loss);
}

// They sort on the host.
LossTraits order_traits(const char* kind, double scale) {
  return {
      .kind = kind, .settings = str(", scale ", scale), .compares_rows = true, .reads_back = true};
}

}  // namespace

CoSENTLoss::CoSENTLoss(SentenceEncoder encoder, double scale)
    : EmbeddingLoss(std::move(encoder), order_traits("CoSENTLoss", scale),
                    std::bind_front(cosent, scale)) {}

AnglELoss::AnglELoss(SentenceEncoder encoder, double scale)
    : EmbeddingLoss(std::move(encoder), order_traits("AnglELoss", scale),
                    std::bind_front(angle, scale)) {}

}  // namespace ringlet::models
