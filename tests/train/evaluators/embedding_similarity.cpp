#include "ringlet/train/evaluators/embedding_evaluators.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "../../files.h"
#include "../../oracle.h"
#include "../words.h"
#include "ringlet/core/io/file.h"

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

TEST_CASE("scores have Sentence Transformers' names and table") {
  TemporaryFolder folder;
  const EmbeddingSimilarityEvaluator evaluator(
      scored(), {.name = "dev", .similarities = {Similarity::cosine, Similarity::euclidean}});
  const EvaluationPoint at{.step = 20, .epoch = 0.5, .output = folder / "eval"};
  const Report report = evaluator.report_of({kFirst, kSecond}, Similarity::cosine, at);
  const Metrics& metrics = report.metrics();
  REQUIRE(metrics.size() == 6);
  CHECK(metrics[0].first == "dev_pearson_cosine");
  CHECK(metrics[1].first == "dev_spearman_cosine");
  // Cosines 0.96, 0, 0 and scores 0.9, 0.1, 0.5: ranks 3, 1.5, 1.5 and 3, 1, 2.
  CHECK(metrics[0].second == doctest::Approx(std::sqrt(0.75)).epsilon(1e-6));
  CHECK(metrics[1].second == doctest::Approx(std::sqrt(0.75)).epsilon(1e-12));
  CHECK(metrics[3].first == "dev_spearman_euclidean");
  CHECK(metrics[4].first == "dev_pearson_max");
  CHECK(report.primary().first == "dev_spearman_max");
  evaluator.report_of({kFirst, kSecond}, Similarity::cosine, at);

  const std::string table = read_file(folder / "eval" / "similarity_evaluation_dev_results.csv");
  CHECK(
      table.starts_with("epoch,steps,cosine_pearson,cosine_spearman,euclidean_pearson,"
                        "euclidean_spearman\r\n0.5,20,0.866"));
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

TEST_CASE("pairs without a score, or with equal ones, are refused") {
  CHECK_THROWS_WITH_AS(EmbeddingSimilarityEvaluator(*words::dataset(3), {}),
                       "words: expected two sentences and a score in each row", InputError);
  CHECK_THROWS_AS(EmbeddingSimilarityEvaluator("nowhere.csv"), InputError);
}
