// The evaluators of `ringlet evaluate` and `ringlet train --eval`, picked by the columns of files.
#include <array>
#include <filesystem>

#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"

namespace {

namespace fs = std::filesystem;

/// A file for each evaluator, about the same sentences.
struct Files {
  TemporaryFolder folder;

  Files() {
    write("pairs.csv",
          "sentence1,sentence2,label\na dog runs,a dog,1\nthe cat,a dog,0\na cat,the cat,1\n"
          "a man,the cat,0\n");
    write("triplets.tsv",
          "anchor\tpositive\tnegative\na dog runs\ta dog\tthe cat\nthe cat\ta cat\ta man\n"
          "a man\ta dog\ta man\n");
    write("rerank.jsonl",
          "{\"query\": \"a dog\", \"positive\": [\"a dog runs\"], \"negative\": [\"the cat\", \"a "
          "man\"]}\n{\"query\": \"the cat\", \"positive\": [\"a cat\"], \"negative\": []}\n");
    fs::create_directory(folder / "beir");
    fs::create_directory(folder / "beir/qrels");
    write("beir/corpus.jsonl",
          "{\"_id\": \"d1\", \"title\": \"\", \"text\": \"a dog\"}\n"
          "{\"_id\": \"d2\", \"title\": \"\", \"text\": \"the cat\"}\n"
          "{\"_id\": \"d3\", \"title\": \"\", \"text\": \"a man\"}\n");
    write("beir/queries.jsonl",
          "{\"_id\": \"1\", \"text\": \"a dog\"}\n{\"_id\": \"2\", \"text\": \"the cat\"}\n"
          "{\"_id\": \"3\", \"text\": \"a man\"}\n");
    write("beir/qrels/dev.tsv", "query-id\tcorpus-id\tscore\n1\td1\t1\n2\td2\t1\n2\td1\t1\n");
  }

  void write(const std::string& name, const std::string& text) const {
    ringlet::write_file(folder / name, text);
  }
  std::string path(const std::string& name) const { return (folder / name).string(); }
  Words command(const std::string& data) const {
    return str("evaluate --model ", ringlet::tests_file("oracles/bert"), " --data ", path(data));
  }
  ringlet::Json evaluate(const std::string& data, const Words& more = {}) const {
    const Outcome outcome = run(command(data) + more + Words{"--json"});
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    return ringlet::Json::parse(outcome.out);
  }
};

const std::vector<std::string> kData{"pairs.csv", "triplets.tsv", "rerank.jsonl",
                                     "beir/qrels/dev.tsv"};

}  // namespace

TEST_CASE_FIXTURE(Files, "evaluate picks the evaluator by the columns of the file") {
  const auto binary = evaluate("pairs.csv");
  CHECK_EQ(binary["rows"], 4);
  CHECK_EQ(binary["evaluator"], "BinaryClassificationEvaluator");
  CHECK_EQ(binary["primary_metric"], "cosine_ap");
  CHECK(binary.contains("cosine_f1_threshold"));
  const auto triplet = evaluate("triplets.tsv", Words("--similarity dot --similarity euclidean"));
  CHECK_EQ(triplet["evaluator"], "TripletEvaluator");
  CHECK_EQ(triplet["primary_metric"], "max_accuracy");
  CHECK(triplet.contains("euclidean_accuracy"));
  const auto reranking = evaluate("rerank.jsonl");
  CHECK_EQ(reranking["rows"], 1);  // the second query has no negative text
  CHECK_EQ(reranking["primary_metric"], "ndcg@10");
  const auto retrieval = evaluate("beir/qrels/dev.tsv");
  CHECK_EQ(retrieval["evaluator"], "InformationRetrievalEvaluator");
  CHECK_EQ(retrieval["rows"], 2);  // the third query has no relevant document
  CHECK_EQ(retrieval["primary_metric"], "cosine_ndcg@10");
  CHECK_EQ(retrieval["cosine_accuracy@1"], 1);  // their own texts are documents
  CHECK_EQ(retrieval["cosine_recall@3"], 1);
}

TEST_CASE_FIXTURE(Files, "evaluate writes the table that Sentence Transformers would") {
  for (const std::string& data : kData)
    evaluate(data, Words("--name dev --output " + path("eval")));
  for (const char* table :
       {"binary_classification_evaluation_dev_results", "triplet_evaluation_dev_results",
        "RerankingEvaluator_dev_results_@10", "Information-Retrieval_evaluation_dev_results"})
    CHECK(contains(ringlet::read_file(folder / "eval" / str(table, ".csv")), "\n-1,-1,"));
  const Outcome printed = run(command("beir/qrels/dev.tsv"));
  CHECK_EQ(printed.out.find("2 queries of "), 0);
  CHECK(contains(printed.out, "cosine_accuracy@1    1.0000\n"));
  CHECK(contains(printed.out, "\nprimary metric: cosine_ndcg@10\n"));
}

TEST_CASE_FIXTURE(Files, "relevant documents that the corpus lacks are counted") {
  write("beir/qrels/dev.tsv", "query-id\tcorpus-id\tscore\n1\td1\t1\n2\tD2\t1\n");
  const std::string file = path("beir/qrels/dev.tsv");
  const Outcome some = run(command("beir/qrels/dev.tsv"));
  CHECK_EQ(some.code, 0);
  CHECK(contains(some.err, file + ": 2 rows; columns query-id, corpus-id, score; 1 of 2 relevant "
                                  "documents are not in the corpus\n"));
  write("beir/qrels/dev.tsv", "query-id\tcorpus-id\tscore\n1\tD1\t1\n2\tD2\t1\n");
  check_refused(command("beir/qrels/dev.tsv"),
                file + ": 2 of 2 relevant documents are not in the corpus");
}

TEST_CASE_FIXTURE(Files, "a model has no distance from itself as its teacher") {
  const std::string model = ringlet::tests_file("oracles/bert");
  const auto found = evaluate(
      "pairs.csv", Words("--columns sentence1=sentence,sentence2=other" + (" --teacher " + model)));
  CHECK_EQ(found["evaluator"], "MSEEvaluator");
  CHECK_EQ(found["negative_mse"], 0);
  CHECK_LT(evaluate("pairs.csv", Words("--teacher " + model))["negative_mse"], 0);
  check_refused(str("evaluate --model ", ringlet::tests_file("oracles/mpnet"), " --data ",
                    path("pairs.csv"), " --teacher ", model),
                "mse: expected embeddings of 48 numbers like the teacher's, found 32");
}

TEST_CASE_FIXTURE(Files, "evaluate reads options from a file") {
  write("evaluate.toml", "data = \"" + path("triplets.tsv") + "\"\nsimilarity = [\"dot\"]\n");
  const Outcome outcome = run(Words(str("evaluate --model ", ringlet::tests_file("oracles/bert"),
                                        " --config ", path("evaluate.toml"))));
  CHECK_EQ(outcome.code, 0);
  CHECK(contains(outcome.out, "dot_accuracy"));
}

TEST_CASE_FIXTURE(Files, "data that an evaluator cannot use is refused by name") {
  const std::string pairs = path("pairs.csv");
  check_refused(command("pairs.csv") + Words("--evaluator label-accuracy"),
                "label-accuracy: the model's folder has no classifier.safetensors, which train "
                "writes after a softmax loss");
  check_refused(command("pairs.csv") + Words("--evaluator triplet"),
                pairs + ": expected an anchor, a positive and a negative in each row");
  check_refused(
      command("pairs.csv") + Words("--corpus x"),
      "--corpus: needs information retrieval: columns query-id, corpus-id and score in " + pairs);
  check_refused(
      command("beir/qrels/dev.tsv") + Words("--columns a=sentence1"),
      "--columns: " + path("beir/qrels/dev.tsv") + " has no columns of sentences to rename");
  check_refused(command("rerank.jsonl") + Words("--similarity dot --similarity cosine"),
                "--similarity: reranking has one, found 2");
  write("pairs.csv", "sentence1,sentence2,label\na,b,0\nc,d,2\n");
  check_refused(command("pairs.csv"), pairs + ": expected labels 0 and 1, found 2");
  for (const char* row : {"q0\t0\td0\t1\n", "q0 Q0 d0 1\n"}) {
    write("trec.tsv", row);
    check_refused(command("trec.tsv"),
                  path("trec.tsv") +
                      ":1: relevant pairs of TREC, without a header; expected columns query-id, "
                      "corpus-id and score: awk 'BEGIN {OFS=\"\\t\"; print \"query-id\", "
                      "\"corpus-id\", \"score\"} {print $1, $3, $4}'");
  }
  write("alone.csv", "sentence\na\nb\n");
  check_refused(command("alone.csv"),
                "--data " + path("alone.csv") +
                    ": expected pairs of sentences with scores or labels, triplets, relevant pairs "
                    "(query-id, corpus-id, score), or a query with positive and negative texts; "
                    "found sentence");
}

TEST_CASE_FIXTURE(Files, "train evaluates by the columns of --eval, and evaluate repeats it") {
  // The trained classifier is evaluated on labels.
  const auto train = [&](const std::string& data, const std::string& output) {
    Words words(str("train --model tiny --batch 2 --max-steps 3 --eval-steps 3 --no-progress",
                    " --output ", path(output), " --data ", data));
    for (const std::string& eval : kData) words = words + Words{"--eval", path(eval)};
    const Outcome outcome = run(words);
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
  };
  train(path("pairs.csv"), "softmax");
  train(path("triplets.tsv"), "mnrl");
  const std::vector<std::pair<std::string, std::string>> figures{
      {"triplets.tsv", "triplets_cosine_accuracy"},
      {"rerank.jsonl", "rerank_ndcg@10"},
      {"beir/qrels/dev.tsv", "dev_cosine_ndcg@10"}};
  for (const auto& row : {std::array{"softmax", "pairs_accuracy", "LabelAccuracyEvaluator"},
                          std::array{"mnrl", "pairs_cosine_ap", "BinaryClassificationEvaluator"}}) {
    const char *const output = row[0], *const of_pairs = row[1], *const evaluator = row[2];
    CAPTURE(output);
    auto all = figures;
    all.emplace_back("pairs.csv", of_pairs);
    for (const auto& [data, figure] : all) {
      const std::vector<double> trained = column(folder / output / "metrics.jsonl", figure);
      REQUIRE_FALSE(trained.empty());
      const std::string name = figure.substr(0, figure.find('_'));
      const Outcome outcome = run(str("evaluate --model ", path(str(output, "/model")), " --data ",
                                      path(data), " --json --name ", name));
      INFO(outcome.err);
      REQUIRE_EQ(outcome.code, 0);
      const auto found = ringlet::Json::parse(outcome.out);
      CHECK_EQ(found[figure], trained.back());
      if (data == "pairs.csv") CHECK_EQ(found["evaluator"], evaluator);
    }
    CHECK(contains(ringlet::read_file(folder / output / "model/README.md"),
                   "type: information-retrieval\n      name: Information Retrieval"));
  }
  CHECK_FALSE(fs::exists(folder / "mnrl/model/classifier.safetensors"));

  // A model in the cache has its classifier, too.
  fs::create_directories(folder / "models--lab--nli/refs");
  fs::create_directories(folder / "models--lab--nli/snapshots");
  ringlet::write_file(folder / "models--lab--nli/refs/main", "a1");
  fs::create_directory_symlink(folder / "softmax/model", folder / "models--lab--nli/snapshots/a1");
  const Outcome cached =
      run_program("/usr/bin/env", {"HF_HUB_CACHE=" + folder.path().string(), ringlet_program(),
                                   "evaluate", "--model", "lab/nli", "--data", path("pairs.csv")});
  CHECK_EQ(cached.code, 0);
  CHECK(contains(cached.out, "accuracy"));
}
