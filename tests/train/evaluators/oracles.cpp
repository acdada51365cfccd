// The evaluators for given embeddings, against Sentence Transformers' (scripts/oracles).
#include <algorithm>

#include "../../files.h"
#include "../../oracle.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/evaluators/embedding_evaluators.h"
#include "ringlet/train/evaluators/information_retrieval_evaluator.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const std::vector<Similarity> kAll{Similarity::cosine, Similarity::dot, Similarity::euclidean,
                                   Similarity::manhattan};

/// The keys of the case's metrics.
std::vector<std::string> keys(const Oracle& oracle, const std::string& name) {
  const std::string prefix = name + "/metric/";
  std::vector<std::string> found;
  for (const std::string& tensor : oracle.names())
    if (tensor.starts_with(prefix)) found.push_back(tensor.substr(prefix.size()));
  return found;
}

std::string text(const Oracle& oracle, const std::string& name) {
  const auto bytes = oracle.tensor(name).to_vector<int>();
  return {bytes.begin(), bytes.end()};
}

/// Scores by all similarities that the case has.
std::vector<Similarity> similarities(const Oracle& oracle, const std::string& name) {
  std::vector<Similarity> found;
  const std::vector<std::string> known = keys(oracle, name);
  for (const Similarity one : kAll)
    if (std::ranges::any_of(known, [&](const std::string& key) {
          return key.starts_with(str("dev_", kSimilarities(one), '_'));
        }))
      found.push_back(one);
  REQUIRE_FALSE(found.empty());
  return found;
}

/// Runs report(at) and compares metrics, primary one, table and its header. The bound is for sums
/// of a few hundred terms in f64. `undefined` ends the key of a figure without a defined value.
template <class Run>
void check_case(const Oracle& oracle, const std::string& name, Run run,
                const std::string& undefined = "no such key") {
  CAPTURE(name);
  const TemporaryFolder folder;
  const Report report = run(EvaluationPoint{.output = folder.path()});
  const Metrics& metrics = report.metrics();
  CHECK(metrics.size() == keys(oracle, name).size());
  for (const auto& metric : metrics) {
    const std::string& key = metric.first;
    CAPTURE(key);
    if (key.find(undefined) != key.npos) continue;
    const double expected = oracle.scalar(name + "/metric/" + key);
    CHECK(metric.second == doctest::Approx(expected).epsilon(1e-12));
  }
  const auto primary = oracle.tensor(name + "/primary").item<std::int64_t>();
  CHECK(report.primary().first == metrics[static_cast<std::size_t>(primary)].first);
  const std::string table = text(oracle, name + "/table");
  const std::size_t end = table.find('\n');
  const std::string written = read_file(folder / table.substr(0, end));
  CHECK(written.starts_with(table.substr(end + 1)));
  CHECK(written.substr(table.size() - end - 1).starts_with("-1,-1,"));
}

TextDataset rows(std::int64_t count, const std::vector<std::string>& columns, Target target,
                 const std::vector<double>& targets = {}) {
  TextDataset data("rows", columns, target);
  const std::vector<std::string_view> texts(columns.size(), "text");
  for (std::int64_t row = 0; row < count; ++row)
    data.add_row(texts, targets.empty() ? 0 : targets[static_cast<std::size_t>(row)]);
  return data;
}

}  // namespace

TEST_CASE("binary classification is that of Sentence Transformers") {
  const Oracle oracle("evaluators");
  for (const std::string& name : oracle.cases("binary")) {
    const Tensor u = oracle.tensor(name + "/u"), v = oracle.tensor(name + "/v");
    const auto labels = oracle.tensor(name + "/labels").to_vector<double>();
    const BinaryClassificationEvaluator evaluator(
        rows(u.size(0), {"sentence1", "sentence2"}, Target::label, labels),
        {.name = "dev", .similarities = similarities(oracle, name)});
    check_case(oracle, name, [&](const EvaluationPoint& at) {
      return evaluator.report_of({u, v}, Similarity::cosine, at);
    });
  }
}

TEST_CASE("accuracy of triplets is that of Sentence Transformers") {
  const Oracle oracle("evaluators");
  for (const std::string& name : oracle.cases("triplet")) {
    const Tensor a = oracle.tensor(name + "/a");
    const auto margins = oracle.tensor(name + "/margins").to_vector<double>();
    std::map<Similarity, double> margin_of;
    for (std::size_t i = 0; i < kAll.size(); ++i) margin_of[kAll[i]] = margins[i];
    const TripletEvaluator evaluator(
        rows(a.size(0), {"anchor", "positive", "negative"}, Target::none),
        {.name = "dev", .similarities = similarities(oracle, name)}, margin_of);
    check_case(oracle, name, [&](const EvaluationPoint& at) {
      return evaluator.report_of({a, oracle.tensor(name + "/p"), oracle.tensor(name + "/n")},
                                 Similarity::cosine, at);
    });
  }
}

TEST_CASE("retrieval is that of Sentence Transformers, whatever the size of chunks") {
  const Oracle oracle("evaluators");
  for (const std::string& name : oracle.cases("retrieval"))
    for (const std::size_t chunk : {1, 7, 1000}) {
      CAPTURE(chunk);
      const Tensor q = oracle.tensor(name + "/q"), d = oracle.tensor(name + "/d");
      const auto relevant = oracle.tensor(name + "/relevant").to_vector<int>();
      const auto missing = oracle.tensor(name + "/missing").to_vector<int>();
      RetrievalData data{.name = "rows"};
      for (std::int64_t i = 0; i < d.size(0); ++i) {
        data.corpus.ids.push_back(str('d', i));
        data.corpus.texts.emplace_back("text");
      }
      for (std::int64_t i = 0; i < q.size(0); ++i) {
        const std::string query = str('q', i);
        data.queries.ids.push_back(query);
        data.queries.texts.emplace_back("text");
        for (std::int64_t j = 0; j < d.size(0); ++j)
          if (relevant[static_cast<std::size_t>(i * d.size(0) + j)])
            data.relevant[query].insert(str('d', j));
        for (int j = 0; j < missing[static_cast<std::size_t>(i)]; ++j)
          data.relevant[query].insert(str('x', j));
      }
      InformationRetrievalEvaluator::Options options{
          .name = "dev", .similarities = similarities(oracle, name), .corpus_chunk_size = chunk};
      if (name == "retrieval.cutoffs") options.cutoffs = {{3, 7}, {5, 2}, {1, 4}, {2}, {6}};
      const InformationRetrievalEvaluator evaluator(data, options);
      check_case(oracle, name, [&](const EvaluationPoint& at) {
        return evaluator.report_of(q, d, Similarity::cosine, at);
      });
    }
}

TEST_CASE("reranking is that of Sentence Transformers") {
  const Oracle oracle("evaluators");
  for (const std::string& name : oracle.cases("reranking")) {
    const Tensor q = oracle.tensor(name + "/q");
    const auto positive = oracle.tensor(name + "/positive").to_vector<std::int64_t>();
    const auto negative = oracle.tensor(name + "/negative").to_vector<std::int64_t>();
    std::vector<RerankingSample> samples;
    for (std::size_t i = 0; i < positive.size(); ++i)
      samples.push_back({"text", std::vector<std::string>(static_cast<std::size_t>(positive[i])),
                         std::vector<std::string>(static_cast<std::size_t>(negative[i]))});
    const RerankingEvaluator evaluator(
        samples, "rows",
        {.name = "dev",
         .at_k = oracle.tensor(name + "/at_k").item<std::int64_t>(),
         .similarity = kAll[static_cast<std::size_t>(
             oracle.tensor(name + "/similarity").item<std::int64_t>())]});
    const auto run = [&](const EvaluationPoint& at) {
      return evaluator.report_of({q, oracle.tensor(name + "/d")}, Similarity::cosine, at);
    };
    // Sentence Transformers' mrr of equal scores depends on a sort that is not stable.
    const bool ties = name == "reranking.ties" || name == "reranking.equal";
    check_case(oracle, name, run, ties ? "mrr" : "no such key");
    if (name == "reranking.equal") CHECK(*find_metric(run({}).metrics(), "dev_mrr@10") == 1);
  }
}

TEST_CASE("correlations and distances from a teacher are those of Sentence Transformers") {
  const Oracle oracle("evaluators");
  const Tensor u = oracle.tensor("similarity.random/u"), v = oracle.tensor("similarity.random/v");
  const EmbeddingSimilarityEvaluator evaluator(
      rows(u.size(0), {"sentence1", "sentence2"}, Target::score,
           oracle.tensor("similarity.random/scores").to_vector<double>()),
      {.name = "dev", .similarities = kAll});
  check_case(oracle, "similarity.random", [&](const EvaluationPoint& at) {
    return evaluator.report_of({u, v}, Similarity::cosine, at);
  });
  for (const std::string& name : oracle.cases("mse")) {
    const Tensor teacher = oracle.tensor(name + "/u");
    const MSEEvaluator mse(teacher, std::vector<std::string>(teacher.numel() / teacher.size(1)),
                           {.name = name == "mse.random" ? "dev" : ""});
    check_case(oracle, name, [&](const EvaluationPoint& at) {
      return mse.report_of({oracle.tensor(name + "/v")}, Similarity::cosine, at);
    });
  }
}
