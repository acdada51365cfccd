#include "ringlet/train/data/retrieval.h"

#include <doctest/doctest.h>

#include "../../files.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

using namespace ringlet;
using namespace ringlet::train;
using Texts = std::vector<std::string>;

namespace {

/// A data set in BEIR's layout.
struct Beir {
  TemporaryFolder folder;
  std::filesystem::path qrels = folder / "qrels" / "test.tsv";

  Beir() {
    std::filesystem::create_directory(folder / "qrels");
    write_file(folder / "corpus.jsonl", R"({"_id": "d1", "title": "T", "text": " A dog. "}
{"_id": "d2", "title": "", "text": "A cat."}
)");
    write_file(folder / "queries.tsv", "id\ttext\n7\tdogs\n8\tcats\n");
    write_file(qrels, "query-id\tcorpus-id\tscore\n7\td1\t1\n7\td9\t2\n8\td2\t0\n");
  }
};

}  // namespace

TEST_CASE_FIXTURE(Beir, "corpus and queries are found in the folder above the relevant pairs") {
  const RetrievalData data = read_retrieval({.relevant = qrels});
  CHECK(data.corpus.ids == Texts{"d1", "d2"});
  CHECK(data.corpus.texts == Texts{" A dog. ", "A cat."});
  CHECK(data.queries.ids == Texts{"7", "8"});
  CHECK(data.queries.texts == Texts{"dogs", "cats"});
  REQUIRE(data.relevant.size() == 1);  // a score of 0 is none
  CHECK(data.relevant.at("7") == std::set<std::string>{"d1", "d9"});
  CHECK_EQ(data.report.note, "1 of 2 relevant documents are not in the corpus");
}

TEST_CASE_FIXTURE(Beir, "relevant documents that are all unknown are refused") {
  write_file(qrels, "query-id\tcorpus-id\tscore\n7\tD1\t1\n7\td9\t2\n8\td9\t1\n");
  CHECK_THROWS_WITH_AS(
      read_retrieval({.relevant = qrels}),
      (qrels.string() + ": 2 of 2 relevant documents are not in the corpus").c_str(), InputError);
  write_file(qrels, "query-id\tcorpus-id\tscore\n7\td1\t1\n8\td2\t1\n");
  CHECK_EQ(read_retrieval({.relevant = qrels}).report.note, "");
}

TEST_CASE_FIXTURE(Beir, "mistakes in retrieval files are named by line") {
  const std::string file = qrels.string();
  write_file(qrels, "query-id\tcorpus-id\tscore\n7\td1\t1\n9\td1\t1\n");
  CHECK_THROWS_WITH_AS(read_retrieval({.relevant = qrels}),
                       (file + ":3: no query has the id '9'").c_str(), InputError);
  write_file(qrels, "query-id\tcorpus-id\tscore\n7\td1\thigh\n");
  CHECK_THROWS_WITH_AS(read_retrieval({.relevant = qrels}),
                       (file + ":2: expected a number in 'score', found 'high'").c_str(),
                       InputError);
  write_file(qrels, "query-id\tcorpus-id\tscore\n7\td1\t0\n");
  CHECK_THROWS_WITH_AS(read_retrieval({.relevant = qrels}),
                       (file + ": expected a score above 0, found none").c_str(), InputError);
  const auto twice = folder / "twice.tsv";
  write_file(twice, "id\ttext\na\tx\na\ty\n");
  CHECK_THROWS_WITH_AS(read_texts_by_id(twice),
                       (twice.string() + ":3: id 'a' occurs twice").c_str(), InputError);
  CHECK_THROWS_WITH_AS(
      read_texts_by_id(qrels),
      (file + ":1: expected columns _id or id, and text, found query-id, corpus-id, "
              "score")
          .c_str(),
      InputError);
  std::filesystem::remove(folder / "corpus.jsonl");
  CHECK_THROWS_WITH_AS(read_retrieval({.relevant = qrels}),
                       (file + ": expected a file corpus.jsonl, .tsv or .csv in its folder or the "
                               "one above; or --corpus FILE")
                           .c_str(),
                       InputError);
}

TEST_CASE("rows for reranking have lists of texts, or a text") {
  const TemporaryFolder folder;
  const auto file = folder / "rows.jsonl";
  write_file(file, R"({"query": "dogs", "positive": ["A dog.", " Dogs. "], "negative": "A cat."}

{"query": "cats", "positive": [], "negative": ["A dog."]}
)");
  const std::vector<RerankingSample> samples = read_reranking(file).samples;
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].query == "dogs");
  CHECK(samples[0].positive == Texts{"A dog.", " Dogs. "});
  CHECK(samples[0].negative == Texts{"A cat."});
  CHECK(samples[1].positive.empty());
  const auto refused = [&](const std::string& text, const std::string& message) {
    write_file(file, text);
    CHECK_THROWS_WITH_AS(read_reranking(file), (file.string() + message).c_str(), InputError);
  };
  refused("{\"query\": \"a\", \"positive\": [1], \"negative\": []}",
          ":1: expected texts in 'positive'");
  refused("{\"query\": \"a\", \"positive\": []}", ":1: expected a member 'negative'");
  refused("{\"query\": " + std::string(2000, '[') + std::string(2000, ']') + "}",
          ":1: expected a JSON object with each key once, nested less deeply");
  refused("{\"query\": [\"a\", \"b\"], \"positive\": [], \"negative\": []}",
          ":1: expected one text in 'query'");
  refused("{\"query\": ",
          ":1: expected a JSON object, malformed at column 11: unexpected end of input");
  refused("{\"query\": \"a\", \"positive\": [], \"negative\": [], \"query\": \"b\"}",
          ":1: key 'query' occurs twice");
  refused("\n", ": empty: expected at least one row");
}

TEST_CASE_FIXTURE(Beir, "a split is chosen, and the reports name what has no use") {
  write_file(qrels,
             "query-id\tcorpus-id\tscore\tsplit\n7\td1\t1\tdev\n8\td2\t1\ttest\n7\td2\t0\tdev\n");
  const std::string file = qrels.string();
  const RetrievalData dev = read_retrieval({.relevant = qrels, .split = {"dev"}});
  CHECK_EQ(dev.relevant.size(), 1);
  CHECK_EQ(describe(dev.report),
           file +
               ": 1 row of split 'dev', 1 skipped (score of 0 or less), 1 skipped (other splits); "
               "columns query-id, corpus-id, score, split");
  CHECK_EQ(describe(dev.corpus.report), (folder / "qrels/../corpus.jsonl").string() +
                                            ": 2 rows; columns _id, text; without use: title");
  CHECK_THROWS_WITH_AS(
      read_retrieval({.relevant = qrels}),
      (file + ": expected --split with one of its splits 'dev' (2 rows), 'test' (1 row)").c_str(),
      InputError);

  const auto rows = folder / "rows.jsonl";
  write_file(rows, R"({"query": "a", "positive": " ", "negative": "n", "split": "dev", "x": 1}
{"query": "b", "positive": "p", "negative": "n", "split": "test", "x": 1}
)");
  const RerankingData data = read_reranking(rows, {"dev"});
  CHECK_EQ(data.samples.size(), 1);
  CHECK_EQ(describe(data.report), rows.string() +
                                      ": 1 row of split 'dev', 1 skipped (other splits); columns "
                                      "query, positive, negative; without use: x; 1 empty text");
  CHECK_THROWS_WITH_AS(
      read_reranking(rows),
      (rows.string() + ": expected --split with one of its splits 'dev' (1 row), 'test' (1 row)")
          .c_str(),
      InputError);
}
