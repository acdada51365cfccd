#include "ringlet/train/evaluator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "../files.h"
#include "../oracle.h"
#include "ringlet/core/io/file.h"
#include "words.h"
#include "words_loss.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const Tensor kFirst = tensor(std::vector<float>{3, 4, 1, 0, 0, 0}, {3, 2});
const Tensor kSecond = tensor(std::vector<float>{4, 3, 0, 2, 1, 1}, {3, 2});

TextDataset scored() {
  TextDataset data("sts", {"sentence1", "sentence2"}, Target::score);
  for (const double score : {0.9, 0.1, 0.5})
    data.add_row(std::vector<std::string_view>{"a", "b"}, score);
  return data;
}

}  // namespace

TEST_CASE("similarities of two rows, distances counted negatively") {
  using Values = std::vector<double>;
  CHECK(paired_similarities(Similarity::cosine, kFirst, kSecond) == Values{24.0 / 25, 0, 0});
  CHECK(paired_similarities(Similarity::dot, kFirst, kSecond) == Values{24, 0, 0});
  CHECK(paired_similarities(Similarity::euclidean, kFirst, kSecond) ==
        Values{-std::sqrt(2.0), -std::sqrt(5.0), -std::sqrt(2.0)});
  CHECK(paired_similarities(Similarity::manhattan, kFirst, kSecond) == Values{-2, -3, -2});
}

TEST_CASE("scores have Sentence Transformers' names and table") {
  TemporaryFolder folder;
  const EmbeddingSimilarityEvaluator evaluator(
      scored(), {.name = "dev", .similarities = {Similarity::cosine, Similarity::euclidean}});
  const EvaluationPoint at{.step = 20, .epoch = 0.5, .output = folder / "eval"};
  const Metrics metrics = evaluator.evaluate(kFirst, kSecond, at);
  REQUIRE(metrics.size() == 4);
  CHECK(metrics[0].first == "dev_pearson_cosine");
  CHECK(metrics[1].first == "dev_spearman_cosine");
  // Cosines 0.96, 0, 0 and scores 0.9, 0.1, 0.5: ranks 3, 1.5, 1.5 and 3, 1, 2.
  CHECK(metrics[0].second == doctest::Approx(std::sqrt(0.75)).epsilon(1e-6));
  CHECK(metrics[1].second == doctest::Approx(std::sqrt(0.75)).epsilon(1e-12));
  CHECK(metrics[3].first == "dev_spearman_euclidean");
  evaluator.evaluate(kFirst, kSecond, at);

  const std::string table = read_file(folder / "eval" / "similarity_evaluation_dev_results.csv");
  CHECK(
      table.starts_with("epoch,steps,cosine_pearson,cosine_spearman,euclidean_pearson,"
                        "euclidean_spearman\n0.5,20,0.866"));
  CHECK(std::count(table.begin(), table.end(), '\n') == 3);
}

TEST_CASE("the similarity is the one that the model's folder names, unless options do") {
  const Oracle oracle("folders");
  std::vector<std::string> sentences;
  std::ifstream lines(oracle_folder() + "/sentences.txt");
  for (std::string line; std::getline(lines, line);) sentences.push_back(line);
  REQUIRE(sentences.size() == 12);
  for (const std::string name : {"dot", "euclidean"}) {
    const TemporaryFolder folder;
    std::filesystem::copy(oracle_folder() + "/bert", folder / "model",
                          std::filesystem::copy_options::recursive);
    write_file(folder / "model/config_sentence_transformers.json",
               R"({"similarity_fn_name": ")" + name + R"("})");
    const auto model = models::SentenceEncoder::from_pretrained(folder / "model");
    const std::vector<double> scores =
        oracle.tensor("similarity/" + name + "/scores").to_vector<double>();
    TextDataset data("sts", {"sentence1", "sentence2"}, Target::score);
    for (std::size_t i = 0; i < 6; ++i)
      data.add_row(std::vector<std::string_view>{sentences[i], sentences[i + 6]}, scores[i]);
    const Metrics metrics = EmbeddingSimilarityEvaluator(data, {}).evaluate(model);
    REQUIRE(metrics.size() == 2);
    CHECK(metrics[0].first == "pearson_" + name);
    CHECK(metrics[0].second ==
          doctest::Approx(oracle.scalar("similarity/" + name + "/pearson")).epsilon(1e-5));
    CHECK(metrics[1].second ==
          doctest::Approx(oracle.scalar("similarity/" + name + "/spearman")).epsilon(1e-12));
    const Metrics cosine =
        EmbeddingSimilarityEvaluator(data, {.similarities = {Similarity::cosine}}).evaluate(model);
    CHECK(cosine[0].first == "pearson_cosine");
  }
}

TEST_CASE("accuracy is counted over all rows, without dropout, and leaves the mode as it was") {
  const auto loss = words::loss(3);
  const auto data = words::dataset(11, 3);
  LabelAccuracyEvaluator evaluator(data, {.name = "dev", .batch_size = 4});
  const Metrics first = evaluator.evaluate(*loss, words::tokenizer());
  CHECK(loss->training());
  REQUIRE(first.size() == 1);
  CHECK(first[0].first == "dev_accuracy");
  CHECK(first[0].second * 11 == doctest::Approx(std::round(first[0].second * 11)).epsilon(1e-12));
  default_generator().next_step();  // would change dropout masks
  CHECK(evaluator.evaluate(*loss, words::tokenizer()) == first);
  LabelAccuracyEvaluator whole(data, {.name = "dev", .batch_size = 100});
  CHECK(whole.evaluate(*loss, words::tokenizer()) == first);

  // A head that always answers class 1 is correct for label 1: rows 1, 4, 7, 10.
  Tensor(loss->weight.tensor()).zero_();
  Tensor(loss->bias.tensor()).copy_(tensor({0.f, 9.f, 0.f}));
  TemporaryFolder folder;
  const EvaluationPoint at{.step = 3, .epoch = 1, .output = folder.path()};
  CHECK(evaluator.evaluate(*loss, words::tokenizer(), at)[0].second == 4.0 / 11);
  CHECK(read_file(folder / "accuracy_evaluation_dev_results.csv") ==
        "epoch,steps,accuracy\n1,3,0.36363636363636365\n");
}

TEST_CASE("data that an evaluator cannot use is refused") {
  CHECK_THROWS_WITH_AS(EmbeddingSimilarityEvaluator(*words::dataset(3), {}),
                       "words: expected two sentences and a score in each row", InputError);
  CHECK_THROWS_WITH_AS(LabelAccuracyEvaluator(std::make_shared<TextDataset>(scored()), {}),
                       "sts: expected rows with a label", InputError);
  const auto loss = words::loss(2);
  const LabelAccuracyEvaluator evaluator(words::dataset(6, 3), {});
  CHECK_THROWS_WITH_AS(evaluator.evaluate(*loss, words::tokenizer()),
                       "words: expected labels below 2, found 2", InputError);
  CHECK_THROWS_AS(EmbeddingSimilarityEvaluator("nowhere.csv"), InputError);
}
