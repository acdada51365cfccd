// `ringlet evaluate` on the small MPNet of tests/oracles, and its errors.
#include <filesystem>

#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/program.h"

namespace {

struct ScoredPairs {
  TemporaryFolder folder;
  std::string data = (folder / "pairs.csv").string();

  Outcome evaluate(const std::string& pairs, Words more = {}) const {
    ringlet::write_file(data, "sentence1,sentence2,score\n" + pairs);
    return run(
        Words(str("evaluate --model ", ringlet::tests_file("oracles/mpnet"), " --data ", data)) +
        more);
  }
};

}  // namespace

TEST_CASE_FIXTURE(ScoredPairs, "evaluate prints a table, or one JSON object") {
  const std::string pairs = "a dog runs,a dog runs,1\na dog runs,the,0\n";
  const Outcome table = evaluate(pairs);
  REQUIRE_EQ(table.code, 0);
  CHECK_EQ(table.out.find("2 pairs of " + data + "\n"), 0);
  CHECK(contains(table.out, "spearman_cosine      1.0000\n"));
  const auto json = ringlet::Json::parse(evaluate(pairs, {"--json"}).out);
  CHECK_EQ(json["rows"], 2);
  CHECK(json["spearman_cosine"].number() == doctest::Approx(1));
}

TEST_CASE_FIXTURE(ScoredPairs, "evaluate cuts embeddings as the folder's truncate_dim does") {
  const std::string pairs = "a dog runs,a dog,1\na dog runs,the cat,0\nthe cat,a cat,0.5\n";
  const auto cut = ringlet::Json::parse(evaluate(pairs, {"--json", "--truncate-dim", "3"}).out);
  const std::string model = (folder / "model").string();
  std::filesystem::copy(ringlet::tests_file("oracles/mpnet"), model,
                        std::filesystem::copy_options::recursive);
  ringlet::write_file(model + "/config_sentence_transformers.json", R"({"truncate_dim": 3})");
  const auto own =
      ringlet::Json::parse(run(str("evaluate --model ", model, " --data ", data, " --json")).out);
  CHECK_EQ(cut, own);
  CHECK(cut["pearson_cosine"] !=
        ringlet::Json::parse(evaluate(pairs, {"--json"}).out)["pearson_cosine"]);
  check_refused(evaluate(pairs, {"--truncate-dim", "33"}),
                "--truncate-dim 33: the model's embeddings have 32 numbers");
}

TEST_CASE_FIXTURE(ScoredPairs, "evaluate reads standard input and a pipe once") {
  const std::string pairs =
      "sentence1,sentence2,score\na dog runs,a dog runs,1\na dog runs,the,0\n";
  const Outcome from_file = evaluate(pairs.substr(pairs.find('\n') + 1), {"--json"});
  const std::string model = ringlet::tests_file("oracles/mpnet");
  const std::string command = ringlet_program() + " evaluate --json --model " + model + " --data ";
  for (const char* input : {"-", "/dev/stdin"}) {
    const Outcome piped = run_program("/bin/sh", {"-c", "cat " + data + " | " + command + input});
    CHECK_EQ(piped.code, 0);
    CHECK_EQ(piped.out, from_file.out);
  }
  const Outcome table = run_program("/bin/sh", {"-c", "cat " + data + " | " + ringlet_program() +
                                                          " evaluate --data - --model " + model});
  CHECK_EQ(table.out.find("2 pairs of standard input\n"), 0);
  // Rank 0 reads it.
  const std::string launched = ringlet_program() + " run -n 2 " + ringlet_program() +
                               " evaluate --json --model " + model + " --data ";
  const Outcome of_two = run_program("/bin/sh", {"-c", "cat " + data + " | " + launched + "-"});
  CHECK(contains(of_two.out, "\"rows\":2,"));
  check_refused(run_program("/bin/sh", {"-c", "cat " + data + " | " + command + "- --corpus -"}),
                "standard input: can be read once, but two options name it");
}

TEST_CASE_FIXTURE(ScoredPairs, "evaluate refuses what has no correlation, by file") {
  check_refused(evaluate("a,b,0.5\nc,d,0.5\ne,f,0.5\n"),
                data + ": expected scores that differ, found 3 rows of 0.5");
  check_refused(evaluate("a,b,0.5\n"), "--data " + data + ": expected at least two rows");
  check_refused(evaluate("a,b,0.5\nc,d,high\n"),
                data + ":3: expected a number in 'score', found 'high'");
  check_refused(evaluate("a,b,0.5\nc,d,5\n"),
                data + ":3: score 5 is out of range: expected -1 to 1 (score scale 1)");
  ringlet::write_file(data, "sentence1,sentence2,score\na,b,0\nc,d,1\n");
  check_refused(str("evaluate --model absent --data ", data), "absent: no such folder");
  check_refused(evaluate("a,b,0\nc,d,1\n", {"--name", "a/b"}),
                "--name a/b: expected a part of a file's name, without '/'");
  check_refused("evaluate --model absent --data absent.csv",
                "absent.csv: cannot open: No such file or directory");
}
