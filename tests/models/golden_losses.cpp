// Losses of embeddings against the values and gradients of Sentence Transformers 6.2 in f64, on
// embeddings that a formula makes: no Python is needed.
#include <doctest/doctest.h>

#include <cmath>

#include "oracle_batch.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/models/losses/losses.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

constexpr std::int64_t kRows = 6, kWidth = 8;

/// E_s[i][j] = (((3ii + 5ij + 2jj + 4sj + 7ss + si) mod 13) - 6) / 5, (rows, width) f64.
Tensor formula(std::int64_t s) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t j = 0; j < kWidth; ++j)
      values.push_back(
          static_cast<double>(
              (3 * i * i + 5 * i * j + 2 * j * j + 4 * s * j + 7 * s * s + s * i) % 13 - 6) /
          5);
  return tensor(values, {kRows, kWidth});
}

struct Texts {
  Tensor a = formula(1), p = add(formula(1), scale(formula(2), 0.5)),
         n1 = add(formula(3), scale(formula(1), 0.25)), n2 = formula(4);
};

Tensor scores() { return tensor(std::vector<double>{.1, .9, .5, .5, .3, .7}, {kRows}); }
Tensor binary() { return tensor(std::vector<std::int64_t>{1, 0, 1, 0, 1, 0}, {kRows}); }
Tensor classes() { return tensor(std::vector<std::int64_t>{0, 1, 2, 2, 1, 0}, {kRows}); }

PackedBatch batch_of(std::int64_t columns, const Tensor& labels) {
  PackedBatch batch;
  batch.rows = batch.global_rows = kRows;
  batch.columns = columns;
  batch.labels = labels;
  return batch;
}

/// The value, then the gradient's norm in each column.
struct Golden {
  std::string name;
  std::shared_ptr<EmbeddingLoss> loss;
  std::vector<Tensor> columns;
  Tensor labels;
  double value;
  std::vector<double> gradients;
};

double norm(const Tensor& x) {
  double sum = 0;
  for (const double value : x.to_vector<double>()) sum += value * value;
  return std::sqrt(sum);
}

/// An encoder for the losses to hold; its width is that of the embeddings.
SentenceEncoder narrow_encoder() {
  const SentenceEncoder tiny = load_unnormalized("bert");
  EncoderConfig config = tiny.config();
  config.hidden_size = kWidth;
  config.num_attention_heads = 2;
  return {config, tiny.tokenizer()};
}

std::vector<Golden> golden() {
  const auto [a, p, n1, n2] = Texts();
  const SentenceEncoder encoder = narrow_encoder();
  const auto ranking = std::make_shared<MultipleNegativesRankingLoss>(encoder);
  const auto symmetric =
      std::make_shared<MultipleNegativesRankingLoss>(encoder, RankingOptions{.symmetric = true});
  const auto triplet = [&](Distance distance, double margin) {
    return std::make_shared<TripletLoss>(encoder, MarginOptions{distance, margin});
  };
  const auto contrastive = [&](Distance distance, double margin) {
    return std::make_shared<ContrastiveLoss>(encoder, MarginOptions{distance, margin});
  };
  const auto batch_hard = [&](Distance distance, double margin) {
    return std::make_shared<BatchHardTripletLoss>(encoder, MarginOptions{distance, margin});
  };
  const auto angle = std::make_shared<AnglELoss>(encoder);
  const auto cosent = std::make_shared<CoSENTLoss>(encoder);
  const auto online = std::make_shared<OnlineContrastiveLoss>(encoder);
  const auto matryoshka =
      std::make_shared<MatryoshkaLoss>(ranking, std::vector<std::int64_t>{2, 8, 4});
  const auto mse = std::make_shared<MSELoss>(encoder);
  using enum Distance;
  return {
      {"MNRL", ranking, {a, p}, {}, 0.015599598, {.0865166, .0873363}},
      {"MNRL, a negative", ranking, {a, p, n1}, {}, 0.451217186, {.8966512, .8851556, .5156767}},
      {"MNRL, two negatives",
       ranking,
       {a, p, n1, n2},
       {},
       0.655682897,
       {.9708830, .9493274, .5156764, .2824764}},
      {"symmetric", symmetric, {a, p}, {}, 0.010694803, {.0499476, .0523204}},
      {"symmetric, a negative",
       symmetric,
       {a, p, n1},
       {},
       0.228503597,
       {.4490185, .4435199, .2578384}},
      {"CoSENT", cosent, {a, p}, scores(), 2.570883866, {2.8202925, 2.5360573}},
      {"AnglE", angle, {a, p}, scores(), 8.002766609, {9.6919280, 8.2827149}},
      {"AnglE, no labels", angle, {a, p, n1}, {}, 0.001805849, {.0245996, .0132426, .0166983}},
      {"Triplet",
       triplet(euclidean, 5),
       {a, p, n1},
       {},
       3.241729866,
       {.5221597, .4082483, .4082483}},
      {"Triplet, cosine",
       triplet(cosine, .5),
       {a, p, n1},
       {},
       0.026416404,
       {.0575097, .0281175, .0580861}},
      {"Contrastive", contrastive(cosine, .5), {a, p}, binary(), 0.049294140, {.0251843, .0223446}},
      {"Contrastive, euclidean",
       contrastive(euclidean, 2),
       {a, p},
       binary(),
       0.604335543,
       {.4488264, .4488264}},
      {"Online", online, {a, p}, binary(), 0.591529679, {.3022111, .2681346}},
      {"BatchHard", batch_hard(euclidean, 1), {a}, classes(), 0.808052090, {.8899760}},
      {"BatchHard, cosine", batch_hard(cosine, .3), {a}, classes(), 0.331375402, {.3978727}},
      {"Matryoshka", matryoshka, {a, p}, {}, 0.994360590, {6.0257793, 2.5666696}},
      {"MSE", mse, {a}, n1, 1.028906250, {.2928177}},
      {"MSE, two columns", mse, {a, p}, n1, 1.024427083, {.1464088, .1457701}},
  };
}

}  // namespace

TEST_CASE("losses of embeddings have Sentence Transformers' values and gradients") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const Golden& golden : golden()) {
      CAPTURE(golden.name);
      CAPTURE(dtype);
      const auto columns = static_cast<std::int64_t>(golden.columns.size());
      const Variable embeddings(concat(golden.columns, 0).to(dtype), true);
      const Variable value =
          golden.loss->of_embeddings(embeddings, batch_of(columns, golden.labels));
      value.backward();
      // The published digits end at 5e-10 and 5e-8. In f32, a scale of 20 multiplies the 2 H
      // roundings of a cosine.
      const double digits = dtype == DType::f64 ? 0 : 20 * 2 * kWidth * kF32;
      CHECK(std::abs(value.item<double>() - golden.value) <= 6e-10 + digits * golden.value);
      for (std::int64_t c = 0; c < columns; ++c) {
        const double found = norm(embeddings.grad().slice(c * kRows, (c + 1) * kRows));
        const double expected = golden.gradients[static_cast<std::size_t>(c)];
        CHECK(std::abs(found - expected) <= 6e-8 + digits * std::max(1.0, expected));
      }
    }
  }
}

TEST_CASE("gradients of the losses are differences of their values") {
  constexpr double kStep = 1e-6;
  for (const Golden& golden : golden()) {
    CAPTURE(golden.name);
    const PackedBatch batch =
        batch_of(static_cast<std::int64_t>(golden.columns.size()), golden.labels);
    const Tensor at = concat(golden.columns, 0);
    const Variable embeddings(at, true);
    const Variable here = golden.loss->of_embeddings(embeddings, batch);
    here.backward();
    const auto gradient = embeddings.grad().to_vector<double>();
    const auto value = [&](std::size_t i, double step) {
      auto moved = at.to_vector<double>();
      moved[i] += step;
      return golden.loss->of_embeddings(Variable(tensor(moved, at.shape())), batch).item<double>();
    };
    for (std::size_t i = 0; i < gradient.size(); i += 5) {
      // At a kink, of abs or relu, the gradient lies between both sides. On one side the error is
      // the second derivative times the step, with a scale of 20.
      const double right = (value(i, kStep) - here.item<double>()) / kStep;
      const double left = (here.item<double>() - value(i, -kStep)) / kStep;
      const double bound = 20 * 20 * kStep * std::max(1.0, std::abs(right));
      CHECK(gradient[i] >= std::min(left, right) - bound);
      CHECK(gradient[i] <= std::max(left, right) + bound);
    }
  }
}

TEST_CASE("losses of degenerate batches are finite") {
  const Texts texts;
  const Tensor zero = zeros({kRows, kWidth}, DType::f64);
  for (const Golden& golden : golden()) {
    CAPTURE(golden.name);
    const auto columns = static_cast<std::int64_t>(golden.columns.size());
    const auto check = [&](const std::vector<Tensor>& texts, const Tensor& labels) {
      const Variable embeddings(concat(texts, 0), true);
      const Variable value = golden.loss->of_embeddings(embeddings, batch_of(columns, labels));
      value.backward();
      CHECK(std::isfinite(value.item<double>()));
      CHECK(std::isfinite(norm(embeddings.grad())));
      return value.item<double>();
    };
    const Tensor same =
        golden.labels.defined()
            ? zeros(golden.labels.shape(), golden.labels.dtype(), golden.labels.device())
            : Tensor();
    check(std::vector<Tensor>(golden.columns.size(), texts.a), golden.labels);  // duplicates
    check(std::vector<Tensor>(golden.columns.size(), zero), golden.labels);
    const double equal = check(golden.columns, same);
    if (golden.name == "CoSENT") CHECK(equal == 0);
  }
}

TEST_CASE("BatchHard of one label or of equal rows has Sentence Transformers' value") {
  struct Case {
    double margin;
    std::vector<std::int64_t> rows, labels;  // rows of the formula
    double value, gradient;
  };
  const std::vector<Case> cases{{5, {0, 1, 2, 3, 4, 5}, {0, 0, 0, 0, 0, 0}, 5, 0},
                                {5, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}, 2.826302824, .7916797},
                                {1, {0, 0, 1, 1, 2, 2}, {0, 1, 2, 2, 1, 0}, 2.849427406, .6666667},
                                {5, {0, 0, 1, 1, 2, 2}, {0, 0, 1, 1, 2, 2}, 2.099998302, .9242926},
                                {5, {3, 3, 3, 3, 3, 3}, {0, 1, 2, 2, 1, 0}, 5, 0},
                                {5, {3, 3, 3, 3, 3, 3}, {0, 0, 0, 0, 0, 0}, 5, 0}};
  const SentenceEncoder encoder = narrow_encoder();
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const Case& degenerate : cases) {
      CAPTURE(dtype);
      CAPTURE(degenerate.value);
      const BatchHardTripletLoss loss(encoder, {Distance::euclidean, degenerate.margin});
      const Tensor rows = index_select(formula(1), 0, tensor(degenerate.rows, {kRows}));
      const Variable embeddings(rows.to(dtype), true);
      const Variable value =
          loss.of_embeddings(embeddings, batch_of(1, tensor(degenerate.labels, {kRows})));
      value.backward();
      const double tolerance = dtype == DType::f64 ? 6e-8 : 1e-5;
      CHECK(std::abs(value.item<double>() - degenerate.value) <= tolerance);
      CHECK(std::abs(norm(embeddings.grad()) - degenerate.gradient) <= tolerance);
    }
  }
}

TEST_CASE("cosine triplets do not depend on the lengths of embeddings, short ones included") {
  const TripletLoss loss(narrow_encoder(), {Distance::cosine, .5});
  const auto run = [&](double length) {
    const Variable x(mul(concat({formula(1), formula(2), formula(3)}, 0), length), true);
    const Variable value = loss.of_embeddings(x, batch_of(3, {}));
    value.backward();
    auto all = mul(x.grad(), length).to_vector<double>();
    all.push_back(value.item<double>());
    return all;
  };
  const std::vector<double> expected = run(1), found = run(1e-10);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::abs(found[i] - expected[i]) <= 1e-12);
}

TEST_CASE("losses of no rows are 0") {
  for (const Golden& golden : golden()) {
    CAPTURE(golden.name);
    PackedBatch batch = batch_of(static_cast<std::int64_t>(golden.columns.size()), golden.labels);
    batch.rows = 0;
    if (batch.labels.defined()) batch.labels = batch.labels.slice(0, 0);
    const Variable embeddings(zeros({0, kWidth}, DType::f64), true);
    const Variable value = golden.loss->of_embeddings(embeddings, batch);
    value.backward();
    CHECK(value.item<double>() == 0);
  }
}

TEST_CASE("CoSENT's value and gradient are the double sum's, at any scale and range") {
  const std::vector<double> scores{0, .2, .3, 1, .3, 0};
  for (const std::vector<double>& cosines : {std::vector<double>{-1, .9, .95, 1, .5, -.5},
                                             {1, .5, 0, -1, .2, .9},
                                             {.1, .1, .1, .1, .1, .1}}) {
    for (const double scale : {1.0, 20.0, 50.0, 1000.0}) {
      CAPTURE(scale);
      // The cosine of (1, 0) and (c, sqrt(1 - c^2)) is c; its derivative by c is along the circle.
      std::vector<double> u, v;
      for (const double c : cosines) {
        u.insert(u.end(), {1, 0});
        v.insert(v.end(), {c, std::sqrt(1 - c * c)});
      }
      const auto rows = static_cast<std::int64_t>(cosines.size());
      const Variable pairs(concat({tensor(u, {rows, 2}), tensor(v, {rows, 2})}, 0), true);
      PackedBatch batch = batch_of(2, tensor(scores, {rows}));
      batch.rows = batch.global_rows = rows;
      const Variable value = CoSENTLoss(narrow_encoder(), scale).of_embeddings(pairs, batch);
      value.backward();
      double largest = 0, sum = 0;
      const auto each = [&](auto&& visit) {
        for (std::size_t i = 0; i < scores.size(); ++i)
          for (std::size_t j = 0; j < scores.size(); ++j)
            if (scores[i] > scores[j]) visit(i, j, scale * (cosines[j] - cosines[i]));
      };
      each([&](auto, auto, double exponent) { largest = std::max(largest, exponent); });
      sum = std::exp(-largest);
      each([&](auto, auto, double exponent) { sum += std::exp(exponent - largest); });
      std::vector<double> expected(scores.size());
      each([&](std::size_t i, std::size_t j, double exponent) {
        const double share = scale * std::exp(exponent - largest) / sum;
        expected[j] += share;
        expected[i] -= share;
      });
      CHECK(value.item<double>() == doctest::Approx(largest + std::log(sum)).epsilon(1e-13));
      // An exponent of up to 2 scale, with a few roundings, becomes a relative error.
      const double tolerance = 16 * 2 * scale * 0x1p-53 * scale;
      for (std::int64_t i = 0; i < rows; ++i) {
        const double c = cosines[static_cast<std::size_t>(i)];
        const double along = std::sqrt(1 - c * c);  // of (1, 0) on the tangent at v
        const auto gradient = pairs.grad()[rows + i].to_vector<double>();
        CHECK(std::abs(gradient[0] - expected[static_cast<std::size_t>(i)] * along * along) <=
              tolerance);
      }
    }
  }
}

TEST_CASE("Matryoshka passes the choice of negatives on") {
  const auto ranking = std::make_shared<MultipleNegativesRankingLoss>(narrow_encoder());
  MatryoshkaLoss loss(ranking, {8, 4});
  CHECK(loss.spans_ranks(0));
  loss.set_negatives(Negatives::local);
  CHECK_FALSE(loss.spans_ranks(0));
  CHECK_FALSE(ranking->spans_ranks(0));
}

TEST_CASE("losses of embeddings refuse labels that are missing, too few or not finite") {
  const SentenceEncoder encoder = narrow_encoder();
  const CoSENTLoss cosent(encoder);
  const AnglELoss angle(encoder);
  const ContrastiveLoss contrastive(encoder);
  const Texts texts;
  const Variable pairs(concat({texts.a, texts.p}, 0));
  const auto refuse = [&](const EmbeddingLoss& loss, const Tensor& labels, const char* why) {
    CHECK_THROWS_WITH_AS(loss.of_embeddings(pairs, batch_of(2, labels)), doctest::Contains(why),
                         Error);
  };
  Tensor nan = scores().clone();
  nan[2].fill_(std::nan(""));
  for (const EmbeddingLoss* loss :
       {static_cast<const EmbeddingLoss*>(&cosent), static_cast<const EmbeddingLoss*>(&angle),
        static_cast<const EmbeddingLoss*>(&contrastive)}) {
    refuse(*loss, {}, "the batch has no labels");
    refuse(*loss, scores().slice(0, 3), "labels");
  }
  refuse(cosent, nan, "a score is nan");
  CHECK_THROWS_WITH_AS(
      BatchHardTripletLoss(encoder, {.distance = Distance::manhattan}),
      "[BatchHardTripletLoss] distance: expected euclidean or cosine, found manhattan", Error);
}

TEST_CASE("a ranking loss without information is the logarithm of its candidates") {
  const SentenceEncoder encoder = narrow_encoder();
  const MultipleNegativesRankingLoss loss(encoder, {.scale = 1e-9});
  const Texts texts;
  const Variable embeddings(concat({texts.a, texts.p, texts.n1, texts.n2}, 0));
  CHECK(loss.of_embeddings(embeddings, batch_of(4, {})).item<double>() ==
        doctest::Approx(std::log(18.0)).epsilon(1e-8));
}
