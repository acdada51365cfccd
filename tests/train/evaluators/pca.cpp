// Principal components, compared with scikit-learn (scripts/oracles/pca.py), and encoders that
// project on them.
#include "ringlet/train/evaluators/pca.h"

#include <doctest/doctest.h>

#include <cmath>

#include "../../oracle.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// Components of rows that are added `block` at a time.
PrincipalComponents components_of(const Tensor& rows, std::int64_t k, std::int64_t block) {
  Pca pca(rows.size(1));
  for (std::int64_t begin = 0; begin < rows.size(0); begin += block)
    pca.add(rows.slice(begin, std::min(begin + block, rows.size(0))));
  CHECK(pca.rows() == rows.size(0));
  return pca.components(k);
}

Tensor f64_row(const std::vector<double>& values) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}, Device{});
}

models::SentenceEncoder small_encoder() {
  return models::SentenceEncoder::from_pretrained(tests_file("oracles/mpnet"));
}

const std::vector<std::string> kPcaTexts{
    "a dog", "a dog runs", "two cats sleep", "no", "the dog", "it is cold", "", "one more line"};

}  // namespace

TEST_CASE("principal components of a table have the published variances and signs") {
  std::vector<double> x;
  for (int i = 0; i < 60; ++i)
    for (int j = 0; j < 5; ++j) x.push_back(((3 * i * i + 5 * i * j + 2 * j * j) % 13 - 6) / 5.0);
  const Tensor rows = tensor(x, {60, 5}, Device{});
  for (const std::int64_t block : {1, 7, 60}) {
    CAPTURE(block);
    const PrincipalComponents found = components_of(rows, 5, block);
    check_close(f64_row(found.variances),
                f64_row({1.02117482, 0.77200810, 0.52832563, 0.30929865, 0.18183688}), 1e-8);
    check_close(found.components[0],
                f64_row({0.5474725, 0.7013756, -0.1441324, 0.4319683, -0.0312327}), 1e-7);
    CHECK(found.kept() == doctest::Approx(1).epsilon(1e-12));
  }
}

TEST_CASE("principal components and what is kept are scikit-learn's, in blocks and whole") {
  const Oracle oracle("pca");
  const auto expected = [&](const char* name) {
    return oracle.tensor(str("pca.whole/", name)).to(Device{}).to(DType::f64);
  };
  const Tensor rows = expected("rows"), f32_rows = rows.to(DType::f32);
  for (const std::int64_t block : {11, 120}) {
    CAPTURE(block);
    const PrincipalComponents found = components_of(f32_rows, 6, block);
    check_close(found.components, expected("components"), 1e-6);
    check_close(found.mean, expected("mean"), 1e-6);
    check_close(f64_row(found.variances), expected("variances"), 1e-6);
    CHECK(found.kept() == doctest::Approx(oracle.scalar("pca.whole/kept")).epsilon(1e-9));
    check_close(matmul(rows, found.components, {.trans_b = true}), expected("projected"), 1e-6);
  }
}

TEST_CASE("components that cannot be computed are refused") {
  Pca pca(3);
  const Tensor row = tensor<float>({0.1F, -0.7F, 0.3F}).to(Device{}).view({1, 3});
  pca.add(row);
  CHECK_THROWS_WITH_AS(pca.components(1), "[pca] needs two rows, not 1", Error);
  for (int i = 0; i < 20; ++i) pca.add(row);
  CHECK_THROWS_WITH_AS(pca.components(1),
                       "principal components: expected embeddings that differ, found 21 equal ones",
                       InputError);
  pca.add(zeros({1, 3}, DType::f32, Device{}));
  CHECK_THROWS_WITH_AS(pca.components(4), "[pca] 4 components of 3 columns", Error);
  CHECK(pca.components(3).variances[1] == doctest::Approx(0));
  CHECK(pca.components(1).kept() == doctest::Approx(1));
  pca.add(tensor<float>({1, NAN, 1}).to(Device{}).view({1, 3}));
  CHECK_THROWS_WITH_AS(pca.components(1), "principal components: an embedding is not finite",
                       InputError);
}

TEST_CASE("a reduced encoder projects embeddings, whitened ones have variance 1 on its texts") {
  const models::SentenceEncoder encoder = small_encoder();
  const Tensor embeddings = encoder.encode(kPcaTexts).to(DType::f64);  // (8, 32)
  Pca pca(32);
  pca.add(embeddings);
  const PrincipalComponents found = pca.components(4);

  const models::SentenceEncoder plain = reduced_encoder(encoder, found, false);
  CHECK(plain.dimension() == 4);
  check_close(plain.encode(kPcaTexts).to(DType::f64),
              matmul(embeddings, found.components, {.trans_b = true}), 2e-6);

  const models::SentenceEncoder whitened = reduced_encoder(encoder, found, true);
  CHECK(whitened.normalize());
  const models::SentenceModules::After& after = whitened.modules()->after();
  const models::SentenceEncoder before_normalize(
      std::make_shared<models::SentenceModules>(
          encoder.transformer(), encoder.pooling(),
          models::SentenceModules::After(after.begin(), after.end() - 1)),
      encoder.tokenizer());
  Pca of_whitened(4);
  of_whitened.add(before_normalize.encode(kPcaTexts));
  const PrincipalComponents white = of_whitened.components(4);
  check_close(f64_row(white.variances), f64_row({1, 1, 1, 1}), 1e-5);
  check_close(white.mean, zeros({4}, DType::f64, Device{}), 1e-5, "", 1);
}

TEST_CASE("whitening of dimensions without variance is refused") {
  const models::SentenceEncoder encoder = small_encoder();
  Pca pca(32);
  pca.add(encoder.encode(kPcaTexts));  // eight texts vary in seven directions
  CHECK_THROWS_WITH_AS(reduced_encoder(encoder, pca.components(9), true),
                       "whitening to 9 dimensions: the embeddings vary in 7 only", InputError);
  CHECK(reduced_encoder(encoder, pca.components(9), false).dimension() == 9);
}
