#include "ringlet/models/losses/losses.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/reduce.h"

namespace ringlet::models {
namespace {

/// The square root of x, which is not negative; its gradient at 0 is 0.
Variable root(const Variable& x) {
  const Tensor zero = scalar_like(0, x.tensor());
  const Tensor positive = gt(x.tensor(), zero);
  const Variable inside = autograd::where(positive, x, Variable(scalar_like(1, x.tensor())));
  return autograd::where(positive, autograd::sqrt(inside), Variable(zero));
}

/// PyTorch's functions of pairs take norms below 1e-8 as 1e-8 (cosine_similarity), and add 1e-6 to
/// each difference (pairwise_distance). Sentence Transformers' functions add nothing, and take
/// norms below 1e-12 as 1e-12.
enum class PairForm : std::uint8_t { torch, sentence_transformers };

/// Row i of `a` and row i of `b`, (n, H) each -> (n).
Variable pair_distances(Distance distance, const Variable& a, const Variable& b, PairForm form) {
  const bool torch = form == PairForm::torch;
  if (distance == Distance::cosine)
    return 1.0 - (torch ? autograd::cosine_similarity(a, b)
                        : autograd::sum(autograd::normalize(a) * autograd::normalize(b), {1}));
  const Variable difference = torch ? a - b + 1e-6 : a - b;
  if (distance == Distance::manhattan) return autograd::sum(autograd::abs(difference), {1});
  return root(autograd::sum(autograd::square(difference), {1}));
}

double rows_of(const PackedBatch& batch) { return static_cast<double>(batch.global_rows); }

Variable cosine_similarity_loss(const Variable& embeddings, const PackedBatch& batch,
                                const EmbeddingLoss& loss) {
  check_labels(loss.kind(), batch, DType::f32);
  const auto [u, v] = columns<2>(loss.kind(), embeddings, batch);  // (rows, H)
  const Variable error = autograd::cosine_similarity(u, v) - Variable(batch.labels);
  return autograd::sum(autograd::square(error)) / rows_of(batch);
}

Variable mse(const Variable& embeddings, const PackedBatch& batch, const EmbeddingLoss& loss) {
  const std::int64_t width = embeddings.size(1);
  RINGLET_CHECK(batch.labels.defined(), "[MSELoss] the batch has no embeddings of a teacher");
  check_shape(loss.kind(), "the teacher's embeddings", batch.labels, {batch.rows, width});
  const Variable labels(batch.labels.to(embeddings.dtype()).view({1, batch.rows, width}));
  const Variable error = autograd::view(embeddings, {batch.columns, batch.rows, width}) - labels;
  return autograd::sum(autograd::square(error)) /
         static_cast<double>(batch.global_rows * batch.columns * width);
}

Variable multiple_negatives(const RankingOptions& options, const Variable& embeddings,
                            const PackedBatch& batch, const EmbeddingLoss& loss) {
  RINGLET_CHECK(batch.columns >= 2, "[", loss.kind(),
                "] rows are anchor, positive and negatives, not ", batch.columns, " column");
  const nn::GlobalRows rows = loss.global_rows(batch);
  const Variable unit = autograd::normalize(embeddings);
  const auto find = [&](const Variable& own, const Variable& all) {
    const Tensor targets =
        arange(static_cast<double>(rows.begin()), static_cast<double>(rows.begin() + rows.own()), 1,
               DType::i64, all.device());
    return autograd::product_cross_entropy(own, all, targets, options.scale, rows_of(batch));
  };
  const Variable anchors = column(unit, batch, 0);
  const Variable candidates =
      rows.gather(autograd::slice(unit, batch.rows, batch.sentences()), batch.columns - 1);
  const Variable forward = find(anchors, candidates);
  if (!options.symmetric) return forward;
  return (forward + find(column(unit, batch, 1), rows.gather(anchors, 1))) / 2;
}

Variable triplet(const MarginOptions& options, const Variable& embeddings, const PackedBatch& batch,
                 const EmbeddingLoss& loss) {
  const auto [anchor, positive, negative] = columns<3>(loss.kind(), embeddings, batch);
  const auto distances = [&options, &from = anchor](const Variable& other) {
    return pair_distances(options.distance, from, other, PairForm::sentence_transformers);
  };
  const Variable near = distances(positive), far = distances(negative);
  return autograd::sum(autograd::relu(near - far + options.margin)) / rows_of(batch);
}

Variable labelled_distances(Distance distance, const Variable& embeddings, const PackedBatch& batch,
                            const EmbeddingLoss& loss) {
  check_labels(loss.kind(), batch);
  const auto [u, v] = columns<2>(loss.kind(), embeddings, batch);
  return pair_distances(distance, u, v, PairForm::torch);
}

Variable squared_violation(const Variable& distances, double margin) {
  return autograd::square(autograd::relu(margin - distances));
}

Variable contrastive(const MarginOptions& options, const Variable& embeddings,
                     const PackedBatch& batch, const EmbeddingLoss& loss) {
  const Variable distances = labelled_distances(options.distance, embeddings, batch, loss);
  const Variable positive(batch.labels.to(distances.dtype()));
  const Variable each = positive * autograd::square(distances) +
                        (1.0 - positive) * squared_violation(distances, options.margin);
  return autograd::sum(each) / (2 * rows_of(batch));
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
    if (other.empty()) return 0.0;
    return std::accumulate(other.begin(), other.end(), 0.0) / static_cast<double>(other.size());
  };
  return {or_mean(positives, negatives,
                  [](auto begin, auto end) { return std::max_element(begin, end); }),
          or_mean(negatives, positives,
                  [](auto begin, auto end) { return std::min_element(begin, end); })};
}

Variable online_contrastive(const MarginOptions& options, const Variable& embeddings,
                            const PackedBatch& batch, const EmbeddingLoss& loss) {
  const Variable distances = labelled_distances(options.distance, embeddings, batch, loss);
  const nn::GlobalRows rows = loss.global_rows(batch);
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
                        weight(hard_negative) * squared_violation(distances, options.margin);
  return autograd::sum(each) * rows.weight_in(batch.global_rows);
}

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

CosineSimilarityLoss::CosineSimilarityLoss(SentenceEncoder encoder)
    : EmbeddingLoss(std::move(encoder), {"CosineSimilarityLoss"}, cosine_similarity_loss) {}

MSELoss::MSELoss(SentenceEncoder encoder) : EmbeddingLoss(std::move(encoder), {"MSELoss"}, mse) {}

MultipleNegativesRankingLoss::MultipleNegativesRankingLoss(SentenceEncoder encoder,
                                                           RankingOptions options)
    : EmbeddingLoss(std::move(encoder),
                    {.kind = options.symmetric ? "MultipleNegativesSymmetricRankingLoss"
                                               : "MultipleNegativesRankingLoss",
                     .settings = str(", scale ", options.scale),
                     .compares_rows = true,
                     .min_rows = 2,
                     .min_rows_with_negatives = options.symmetric ? 2 : 1},
                    std::bind_front(multiple_negatives, options)) {}

TripletLoss::TripletLoss(SentenceEncoder encoder, MarginOptions options)
    : EmbeddingLoss(std::move(encoder), {"TripletLoss", options.settings()},
                    std::bind_front(triplet, options)) {}

ContrastiveLoss::ContrastiveLoss(SentenceEncoder encoder, MarginOptions options)
    : EmbeddingLoss(std::move(encoder), {"ContrastiveLoss", options.settings()},
                    std::bind_front(contrastive, options)) {}

OnlineContrastiveLoss::OnlineContrastiveLoss(SentenceEncoder encoder, MarginOptions options)
    : EmbeddingLoss(std::move(encoder),
                    {.kind = "OnlineContrastiveLoss",
                     .settings = options.settings(),
                     .compares_rows = true,
                     .reads_back = true},
                    std::bind_front(online_contrastive, options)) {}

SoftmaxLoss::SoftmaxLoss(SentenceEncoder encoder, std::int64_t labels)
    : EmbeddingLoss(std::move(encoder), {"SoftmaxLoss"},
                    [this](const Variable& embeddings, const PackedBatch& batch, auto& loss) {
                      check_labels(loss.kind(), batch, DType::i64);
                      return autograd::cross_entropy(classify(embeddings, batch), batch.labels,
                                                     rows_of(batch));
                    }) {
  RINGLET_CHECK(labels > 1, "[SoftmaxLoss] needs at least 2 labels, not ", labels);
  const std::int64_t width = 3 * this->encoder().dimension();
  classifier_ = register_module("classifier", std::make_shared<nn::Linear>(width, labels));
  classifier_->to(this->encoder().device());
}

Variable SoftmaxLoss::logits(const PackedBatch& batch) { return classify(encoder()(batch), batch); }

Variable SoftmaxLoss::classify(const Variable& embeddings, const PackedBatch& batch) const {
  const auto [u, v] = columns<2>(kind(), embeddings, batch);  // (rows, H)
  return (*classifier_)(autograd::concat({u, v, autograd::abs(u - v)}, 1));
}

MatryoshkaLoss::MatryoshkaLoss(std::shared_ptr<EmbeddingLoss> inner, std::vector<std::int64_t> dims)
    : EmbeddingLoss(inner->encoder(), {"MatryoshkaLoss"},
                    [this](const Variable& embeddings, const PackedBatch& batch, auto&) {
                      Variable sum;
                      for (const std::int64_t dim : dims_) {
                        const Variable cut = autograd::narrow(embeddings, 1, 0, dim);
                        const Variable value =
                            inner_->of_embeddings(autograd::normalize(cut), batch);
                        sum = sum.defined() ? sum + value : value;
                      }
                      return sum;
                    }),
      inner_(std::move(inner)),
      dims_(std::move(dims)) {
  const std::int64_t width = encoder().dimension();
  std::ranges::sort(dims_, std::greater());
  if (dims_.empty() || dims_.back() < 1 || dims_.front() > width)
    fail_input("MatryoshkaLoss: expected dimensions from 1 to ", width, ", found ",
               dims_.empty() ? "none" : str(dims_.back() < 1 ? dims_.back() : dims_.front()));
  if (const auto twice = std::ranges::adjacent_find(dims_); twice != dims_.end())
    fail_input("MatryoshkaLoss: expected each dimension once, found ", *twice, " twice");
  if (inner_->parameters().size() != encoder().modules()->parameters().size())
    fail_input("MatryoshkaLoss: expected a loss without parameters, found ", inner_->kind());
  register_module("loss", inner_);
}

std::string MatryoshkaLoss::describe(std::size_t dataset) const {
  std::string text = inner_->describe(dataset) + ", dimensions";
  for (const std::int64_t dim : dims_) text += str(' ', dim);
  return text;
}

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
