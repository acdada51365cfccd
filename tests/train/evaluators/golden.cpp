// Cases small enough to compute by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "../../files.h"
#include "../words.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/evaluators/embedding_evaluators.h"
#include "ringlet/train/evaluators/information_retrieval_evaluator.h"
#include "ringlet/train/evaluators/statistics.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// Nine digits were published: half a unit of the last is 5e-10.
doctest::Approx rounded(double published) { return doctest::Approx(published).epsilon(5e-10); }

}  // namespace

TEST_CASE("a threshold lies between unequal scores") {
  const std::vector<double> scores{.9, .8, .8, .6, .4, .4, .1};
  const BinaryScores found = binary_scores(scores, {true, true, false, true, false, true, false});
  CHECK(found.accuracy == rounded(5.0 / 7));
  CHECK(found.accuracy_threshold == rounded(.5));
  CHECK(found.f1 == rounded(.8));
  CHECK(found.precision == rounded(2.0 / 3));
  CHECK(found.recall == 1);
  CHECK(found.f1_threshold == rounded(.25));
  CHECK(found.ap == rounded(.770833333));
  CHECK(found.mcc == rounded(.471404521));
}

TEST_CASE("binary scores of NaN are NaN") {
  const BinaryScores found = binary_scores(std::vector{1.0, std::nan("")}, {true, false});
  CHECK(std::isnan(found.accuracy));
  CHECK(std::isnan(found.mcc));
}

namespace {

/// d1 to d6 are unit vectors, so the queries' numbers are the scores.
RetrievalData documents() {
  RetrievalData data{.name = "golden"};
  for (int i = 6; i >= 1; --i) {  // in another order than that of ids
    data.corpus.ids.push_back(str('d', i));
    data.corpus.texts.push_back(str("text ", i));
  }
  data.queries = {{"q1", "q2", "q3"}, {"one", "two", "three"}};
  data.relevant = {{"q1", {"d1", "d5", "d9"}}, {"q2", {"d4"}}};
  return data;
}

const Tensor kCorpus = tensor(std::vector<float>{0, 0, 0, 0, 0, 1,   //
                                                 0, 0, 0, 0, 1, 0,   //
                                                 0, 0, 0, 1, 0, 0,   //
                                                 0, 0, 1, 0, 0, 0,   //
                                                 0, 1, 0, 0, 0, 0,   //
                                                 1, 0, 0, 0, 0, 0},  //
                              {6, 6});
const Tensor kQueries = tensor(std::vector<float>{.8f, .8f, .9f, -1, .5f, -1,  //
                                                  -1, .7f, -1, .7f, -1, .1f,   //
                                                  1, 1, 1, 1, 1, 1},           //
                               {3, 6});

}  // namespace

TEST_CASE("hits of equal score are ordered by id, and ids without a document count") {
  for (const std::size_t chunk : {1, 4, 100}) {
    const InformationRetrievalEvaluator evaluator(
        documents(), {.name = "dev",
                      .similarities = {Similarity::dot},
                      .corpus_chunk_size = chunk,
                      .cutoffs = {{10}, {3, 10}, {1, 3}, {3}, {3, 100}}});
    CHECK(evaluator.queries() == 2);  // q3 has no relevant document
    const Report report = evaluator.report_of(kQueries, kCorpus);
    const auto metric = [&](const char* key) {
      return *find_metric(report.metrics(), str("dev_dot_", key));
    };
    CHECK(metric("accuracy@1") == 0);
    CHECK(metric("accuracy@3") == 1);
    CHECK(metric("precision@3") == rounded(1.0 / 3));
    CHECK(metric("recall@3") == rounded(2.0 / 3));
    CHECK(metric("mrr@10") == rounded(.5));
    CHECK(metric("ndcg@3") == rounded(.463505832));
    CHECK(metric("ndcg@10") == rounded(.564559506));
    CHECK(metric("map@3") == rounded(1.0 / 3));
    CHECK(metric("map@100") == rounded(5.0 / 12));
    CHECK(report.primary().first == "dev_dot_ndcg@10");
  }
}

TEST_CASE("figures of reranking share the gain of equal scores") {
  const std::vector<double> scores{.5, .9, .9, .5, .1};
  const std::vector<bool> relevant{true, true, false, false, false};
  CHECK(average_precision(scores, relevant) == rounded(.5));
  CHECK(ndcg(scores, relevant, 10) == rounded(.785320859));
  CHECK(ndcg(scores, relevant, 2) == rounded(.5));
  CHECK(average_precision(scores, std::vector<bool>(5, false)) == 0);
  CHECK(ndcg(scores, std::vector<bool>(5, false), 3) == 0);
  CHECK(reciprocal_rank({false, false, true}, 3) == rounded(1.0 / 3));
  CHECK(reciprocal_rank({false, false, true}, 2) == 0);
}

TEST_CASE("sets that give no figure are refused") {
  const TextDataset pairs("pairs", {"sentence1", "sentence2"}, Target::label);
  const TextDataset triplets("triplets", {"anchor", "positive", "negative"}, Target::none);
  CHECK_THROWS_WITH_AS(BinaryClassificationEvaluator(pairs, {}),
                       "pairs: expected two sentences and a label, 0 or 1, in each row",
                       InputError);
  CHECK_THROWS_WITH_AS(BinaryClassificationEvaluator(*words::dataset(4, 3), {}),
                       "words: expected labels 0 and 1, found 2", InputError);
  CHECK_THROWS_WITH_AS(TripletEvaluator(triplets, {}),
                       "triplets: expected an anchor, a positive and a negative in each row",
                       InputError);
  RetrievalData none = documents();
  none.relevant.clear();
  CHECK_THROWS_WITH_AS(InformationRetrievalEvaluator(none, {}),
                       "golden: expected documents and queries with a relevant one, found 6 "
                       "documents and 0 such queries",
                       InputError);
  CHECK_THROWS_WITH_AS(RerankingEvaluator({{"query", {"positive"}, {}}}, "samples", {}),
                       "samples: expected a query with positive and negative documents, found none",
                       InputError);
  CHECK_THROWS_WITH_AS(MSEEvaluator(zeros({0, 2}), {}, {}), "mse: expected texts, found none",
                       InputError);
}
