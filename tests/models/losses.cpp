// The losses against sentence-transformers and PyTorch: tests/oracles/README.md.
#include <doctest/doctest.h>

#include "oracle_batch.h"
#include "ringlet/autograd/functions/cosine_similarity.h"
#include "ringlet/models/losses/cosine_similarity_loss.h"
#include "ringlet/models/losses/multiple_negatives_ranking_loss.h"
#include "ringlet/models/losses/softmax_loss.h"
#include "ringlet/train/optimizer.h"

using namespace ringlet;
using namespace ringlet::models;

TEST_CASE("ten AdamW losses are PyTorch's") {
  for (const char* name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const Oracle oracle(name);
    SoftmaxLoss loss(load_unnormalized(name), 3);
    start_from_oracle(oracle, loss);
    // No decay where the name has "bias", so none for the relative attention bias.
    train::AdamW optimizer(loss, {.lr = oracle.scalar("adamw/lr"), .weight_decay = 0.01});
    const std::vector<float> expected = oracle.tensor("adamw/losses").to_vector();
    REQUIRE(expected.size() == 10);
    for (int step = 0; step < 10; ++step) {
      CAPTURE(step);
      const Variable value = loss(pair_batch(oracle, step % 3));
      check_close(value.tensor(), tensor({expected[static_cast<std::size_t>(step)]}).view({}),
                  1e-4);
      value.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }
}

TEST_CASE("CosineSimilarityLoss and MultipleNegativesRankingLoss have the library's values") {
  for (const char* name : {"bert", "mpnet"}) {
    CAPTURE(name);
    const Oracle oracle(name);
    const SentenceEncoder encoder = load_unnormalized(name);
    PackedBatch batch = pair_batch(oracle, 0);
    MultipleNegativesRankingLoss ranking(encoder);
    check_close(ranking(batch).tensor(), oracle.tensor("multiple_negatives_ranking_loss/loss"),
                1e-5);
    batch.labels = oracle.tensor("batch0/scores");
    CosineSimilarityLoss cosine(encoder);
    check_close(cosine(batch).tensor(), oracle.tensor("cosine_similarity_loss/loss"), 1e-5);
  }
}

TEST_CASE("a loss says what it needs") {
  const Oracle oracle("bert");
  const SentenceEncoder encoder = load_unnormalized("bert");
  PackedBatch batch = pair_batch(oracle, 0);
  CosineSimilarityLoss cosine(encoder);
  CHECK_THROWS_WITH_AS(cosine(batch),
                       "[CosineSimilarityLoss] labels (classes are i64, scores f32): i64 != f32",
                       Error);
  batch.labels = full({batch.rows}, 3, DType::i64);
  SoftmaxLoss softmax(encoder, 3);
  CHECK_THROWS_AS(softmax(batch), Error);
  CHECK_THROWS_WITH_AS(softmax(batch.column(0)), "[SoftmaxLoss] sentences per row: 1 != 2", Error);
  CHECK_THROWS_AS(SoftmaxLoss(encoder, 1), Error);
}

TEST_CASE("one forward per column gives the same loss") {
  const Oracle oracle("mpnet");
  const SentenceEncoder encoder = load_unnormalized("mpnet");
  SoftmaxLoss loss(encoder, 3);
  const PackedBatch batch = pair_batch(oracle, 0);
  const Tensor together = loss(batch).tensor();
  encoder.set_forward_per_column(true);
  check_close(loss(batch).tensor(), together, 64 * kF32);
}

TEST_CASE("parts of a batch add up to the whole") {
  const Oracle oracle("mpnet");
  SoftmaxLoss loss(load_unnormalized("mpnet"), 3);
  const double whole = loss(pair_batch(oracle, 0)).item<double>();
  PackedBatch part = pair_batch(oracle, 0);
  part.global_rows = 2 * part.rows;
  CHECK(2 * loss(part).item<double>() == doctest::Approx(whole).epsilon(1e-6));
}

TEST_CASE("an encoder outlives its losses") {
  const Oracle oracle("mpnet");
  const SentenceEncoder encoder = load_unnormalized("mpnet");
  { SoftmaxLoss first(encoder, 3); }
  SoftmaxLoss second(encoder, 3);
  CHECK(std::isfinite(second(pair_batch(oracle, 0)).item()));
  CHECK(encoder.transformer()->path().empty());
}
