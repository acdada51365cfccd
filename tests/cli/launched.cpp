// `ringlet evaluate` and `ringlet encode` as ranks of a launcher: one common result.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "ringlet/tests/cli/program.h"

TEST_SUITE_BEGIN("host");

namespace fs = std::filesystem;

namespace {

const std::string kModel = ringlet::tests_file("oracles/mpnet");

Outcome launched(int ranks, Words command, const RunOptions& options = {}) {
  return run(Words(str("run --nproc-per-node ", ranks, ' ', ringlet_program())) + command, options);
}

/// Pairs of sentences of 1 to 12 words with a score.
std::string pairs(int n) {
  std::string text = "sentence1,sentence2,score\n";
  for (int i = 0; i < n; ++i) {
    std::string first = "a dog", second = "two cats";
    for (int word = 0; word < i % 12; ++word) first += " runs", second += word % 2 ? " run" : " in";
    text += first + ',' + second + ',' + std::to_string(i * 7 % 11 / 10.0) + '\n';
  }
  return text;
}

/// The output without the launcher's prefix "[0] " of rank 0's lines.
std::string as_unlaunched(const std::string& out) {
  REQUIRE(out.starts_with("[0] "));
  std::string text = out.substr(4);
  for (std::size_t at; (at = text.find("\n[0] ")) != text.npos;) text.erase(at + 1, 4);
  return text;
}

/// Three ranks print what one process without a launcher does.
void check_alike(const Words& command) {
  const Outcome alone = run(command);
  REQUIRE_EQ(alone.code, 0);
  const Outcome three = launched(3, command);
  INFO(three.err);
  REQUIRE_EQ(three.code, 0);
  CHECK_EQ(as_unlaunched(three.out), alone.out);
}

}  // namespace

TEST_CASE("evaluate shares the rows over the ranks of a launcher, and one of them speaks") {
  const TemporaryFolder folder;
  const std::string data = (folder / "pairs.csv").string();
  ringlet::write_file(data, pairs(37));
  const Words command = str("evaluate --model ", kModel, " --data ", data, " --json");
  check_alike(command);
}

TEST_CASE("evaluate shares the queries of a corpus over the ranks of a launcher") {
  const TemporaryFolder folder;
  std::string corpus = "id\ttext\n", queries = corpus, relevant = "query-id\tcorpus-id\tscore\n";
  for (int i = 0; i < 20; ++i) {
    corpus += str("d", i, "\ta dog", i % 3 ? " runs" : "", i % 7 ? " in" : "", '\n');
    if (i < 5) queries += str("q", i, "\tdog", i % 2 ? " in" : "", '\n');
    relevant += str("q", i % 5, "\td", i, "\t1\n");
  }
  ringlet::write_file(folder / "corpus.tsv", corpus);
  ringlet::write_file(folder / "queries.tsv", queries);
  ringlet::write_file(folder / "qrels.tsv", relevant);
  const Words command =
      str("evaluate --model ", kModel, " --data ", (folder / "qrels.tsv").string(), " --json");
  check_alike(command);
}

TEST_CASE("reduce shares texts with line breaks over the ranks of a launcher") {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += str("{\"sentence1\": \"a dog", i, "\\nand a cat\", \"sentence2\": \"bird ", i * 7 % 11,
                "\", \"score\": 1}\n");
  ringlet::write_file(folder / "rows.jsonl", rows);
  const auto command = [&](const char* output) {
    return Words(str("reduce --model ", kModel, " --data ", (folder / "rows.jsonl").string(),
                     " --dim 8 --output ", (folder / output).string()));
  };
  REQUIRE_EQ(run(command("alone")).code, 0);
  const Outcome three = launched(3, command("three"));
  INFO(three.err);
  REQUIRE_EQ(three.code, 0);
  const auto weights = [&](const char* output) {
    for (const auto& entry : std::filesystem::directory_iterator(folder / output))
      if (entry.path().filename().string().ends_with("_Dense"))
        return ringlet::read_file(entry.path() / "model.safetensors");
    return std::string();
  };
  CHECK(!weights("alone").empty());
  CHECK(weights("alone") == weights("three"));
}

TEST_CASE("encode shares the lines over the ranks of a launcher, and one of them writes") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 50; ++i) text += std::string(static_cast<std::size_t>(i % 9), 'a') + " dog\n";
  const auto command = [&](const std::string& output) {
    return Words(str("encode - --model ", kModel, " --output ", output));
  };
  for (const char* ending : {".npy", ".jsonl"}) {
    CAPTURE(ending);
    const std::string one = (folder / "one").string() + ending;
    const std::string three = (folder / "three").string() + ending;
    REQUIRE_EQ(run(command(one), {.input = text}).code, 0);
    const Outcome outcome = launched(3, command(three), {.input = text});
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    CHECK((ringlet::read_file(one) == ringlet::read_file(three)));
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
  }
}

TEST_CASE("--timeout is how long ranks of evaluate and encode wait for one that has stopped") {
  const TemporaryFolder folder;
  const std::string data = (folder / "pairs.csv").string();
  ringlet::write_file(data, pairs(4));
  for (const Words& command : {Words(str("evaluate --model ", kModel, " --data ", data)),
                               Words(str("encode ", data, " --model ", kModel, " --output ",
                                         (folder / "out.npy").string()))}) {
    CAPTURE(command[0]);
    const std::string stops = "[ $RANK = 0 ] || kill -STOP $$; exec \"$0\" \"$@\"";
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome =
        run("run --nproc-per-node 2 --grace 0.5" + Words{"sh", "-c", stops, ringlet_program()} +
            command + "--timeout 1.5");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    CHECK(outcome.code != 0);
    CHECK(seconds.count() < 200);
    CHECK_MESSAGE(contains(outcome.err, "rank 0 waited 1.5 s for rank 1"), outcome.err);
  }
  CHECK_FALSE(fs::exists(folder / "out.npy"));
  check_refused(str("evaluate --model ", kModel, " --data ", data, " --timeout 3"),
                "--timeout 3: no launcher started this: there is no rank to wait for");
}

TEST_CASE("input that rank 0 of an encode cannot read ends all ranks, with the code of bad input") {
  const TemporaryFolder folder;
  const Outcome outcome = launched(2, str("encode ", (folder / "absent").string(), " --model ",
                                          kModel, " --output ", (folder / "out.npy").string()));
  CHECK_EQ(outcome.code, 2);
  CHECK(contains(outcome.err, "absent: cannot open: No such file"));
  CHECK_FALSE(fs::exists(folder / "out.npy"));
}

TEST_SUITE_END();
