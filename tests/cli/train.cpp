#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ringlet/tests/cli/program.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/npy.h"

namespace fs = std::filesystem;

namespace {

// Instrumented code is too slow to learn: it takes a few steps only.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kInstrumented = true;
#elif defined(__has_feature)
constexpr bool kInstrumented = __has_feature(address_sanitizer);
#else
constexpr bool kInstrumented = false;
#endif

/// The metrics of each line that has `key`.
std::vector<double> column(const fs::path& metrics, const std::string& key) {
  std::vector<double> values;
  std::istringstream lines(ringlet::read_file(metrics));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains(key)) values.push_back(json[key]);
  }
  return values;
}

}  // namespace

TEST_CASE("from random weights on the project's own data, NLI's loss falls below guessing") {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  std::vector<std::string> command{"train", "--model", "tiny", "--output", output};
  if (kInstrumented) command.insert(command.end(), {"--max-steps", "20"});
  const Outcome outcome = run(command);
  REQUIRE_EQ(outcome.code, 0);
  CHECK(outcome.err.find("pairs/s") != std::string::npos);
  const double dev = column(folder / "out/metrics.jsonl", "nli-dev_loss").back();
  CHECK(std::isfinite(dev));
  if (!kInstrumented) {
    CHECK(dev < std::log(3.0) - 0.1);
    CHECK(column(folder / "out/metrics.jsonl", "nli-dev_accuracy").back() > 0.5);
    CHECK(column(folder / "out/metrics.jsonl", "sts-dev_spearman_cosine").back() > 0.6);
  }
  CHECK(ringlet::read_file(folder / "out/curves.svg").find("loss_nli") != std::string::npos);

  // What was written embeds text and evaluates.
  const std::string model = output + "/model";
  const std::string embeddings = (folder / "e.npy").string();
  REQUIRE_EQ(run({"encode", "-", "--model", model, "--output", embeddings},
                 {.input = "A dog runs.\n\nA dog runs."})
                 .code,
             0);
  const ringlet::Tensor e = ringlet::train::read_npy(embeddings);
  CHECK_EQ(e.shape(), ringlet::Shape{3, 128});
  CHECK_EQ(e[0].to_vector(), e[2].to_vector());  // and the empty line kept its place
  ringlet::write_file(folder / "pairs.csv", "a dog runs,a dog runs,5\na dog runs,a man sings,0\n");
  const Outcome score =
      run({"evaluate", "--model", model, "--data", (folder / "pairs.csv").string(), "--json"});
  REQUIRE_EQ(score.code, 0);
  CHECK(nlohmann::json::parse(score.out)["spearman_cosine"] == doctest::Approx(1));
}

TEST_CASE("a run that is resumed ends with the bits of one that was not") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& output, std::vector<std::string> more) {
    std::vector<std::string> all{"train",
                                 "--model",
                                 "tiny",
                                 "--max-steps",
                                 "24",
                                 "--seed",
                                 "3",
                                 "--output",
                                 (folder / output).string(),
                                 "--save-steps",
                                 "12",
                                 "--no-progress"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  REQUIRE_EQ(train("whole", {}).code, 0);
  REQUIRE_EQ(train("parts", {}).code, 0);
  // As if the second run had been stopped after its first checkpoint.
  fs::remove_all(folder / "parts/checkpoint-24");
  fs::remove_all(folder / "parts/model");
  const Outcome resumed = train("parts", {"--resume"});
  CHECK_EQ(resumed.code, 0);
  CHECK_EQ(resumed.err, "");
  CHECK(ringlet::read_file(folder / "parts/model/model.safetensors") ==
        ringlet::read_file(folder / "whole/model/model.safetensors"));
  CHECK_EQ(column(folder / "parts/metrics.jsonl", "loss_nli"),
           column(folder / "whole/metrics.jsonl", "loss_nli"));
}

TEST_CASE("a run that is interrupted saves behind its step, says so and can be resumed") {
  const TemporaryFolder folder;
  const fs::path metrics = folder / "out/metrics.jsonl";
  // Ends the run behind step `after`, which has left its line of metrics; returns the step saved.
  const auto interrupt = [&](int signal, const char* name, int after, bool resume) {
    std::vector<std::string> command{
        "train",       "--model", "tiny",         "--output", (folder / "out").string(),
        "--max-steps", "4000",    "--no-progress"};
    if (resume) command.push_back("--resume");
    const std::string line = "{\"step\":" + std::to_string(after) + ",";
    const Outcome outcome =
        run(command, {.signal = signal, .when = [&] {
                        return fs::exists(metrics) &&
                               ringlet::read_file(metrics).find(line) != std::string::npos;
                      }});
    CHECK_EQ(outcome.code, 128 + signal);
    CHECK_EQ(outcome.out, "");
    const auto saved = ringlet::train::latest_checkpoint(folder / "out");
    REQUIRE(saved);
    const int step = std::stoi(saved->filename().string().substr(11));
    CHECK_GE(step, after);
    CHECK_EQ(outcome.err, "ringlet: " + std::string(name) + " after step " + std::to_string(step) +
                              " of 4000: saved " + saved->string() +
                              "; --resume goes on from there\n");
    return step;
  };
  const int first = interrupt(SIGINT, "SIGINT", 10, false);
  interrupt(SIGTERM, "SIGTERM", (first / 10 + 1) * 10, true);
  CHECK_FALSE(fs::exists(folder / "out/model"));
}

TEST_CASE("scores of tables go up to the score scale, classes to a thousand unless told") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "sts.tsv",
                      "sentence1\tsentence2\tscore\na b\ta b\t5\nc\td\t0\ne\tf\t2.5\n");
  const std::string sts = (folder / "sts.tsv").string();
  const auto train = [&](const std::string& data, std::vector<std::string> more) {
    fs::remove_all(folder / "out");
    std::vector<std::string> all{"train",    "--model",
                                 "tiny",     "--batch",
                                 "2",        "--no-progress",
                                 "--output", (folder / "out").string(),
                                 "--data",   data};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  check_refused(train(sts, {}),
                sts + ":2: score 5 is out of range: expected -1 to 1 (score scale 1)");
  CHECK_EQ(train(sts, {"--score-scale", "5", "--eval", sts}).code, 0);
  const Outcome score = run({"evaluate", "--model", (folder / "out/model").string(), "--data", sts,
                             "--score-scale", "5", "--json"});
  CHECK_EQ(score.code, 0);
  CHECK_EQ(nlohmann::json::parse(score.out)["rows"], 3);

  ringlet::write_file(folder / "ids.csv", "sentence1,sentence2,label\na,b,0\nc,d,1000\n");
  const std::string ids = (folder / "ids.csv").string();
  check_refused(train(ids, {}), "--data " + ids +
                                    ": label 1000 makes 1001 classes; say --num-labels if there "
                                    "are so many");
  CHECK_EQ(train(ids, {"--num-labels", "1001"}).code, 0);
}

TEST_CASE("a rename is for the files that have the column, and some file must have it") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "nli.jsonl",
                      "{\"premise\": \"a\", \"hypothesis\": \"b\", \"label\": 0}\n"
                      "{\"premise\": \"c\", \"hypothesis\": \"d\", \"label\": 1}\n");
  ringlet::write_file(folder / "sts.csv", "sentence1,sentence2,score\na,b,1\nc,d,0\n");
  ringlet::write_file(folder / "dev.csv", "left,sentence2,score\na b,a b,1\nc,d,0\ne,f,0.5\n");
  const auto train = [&](const std::string& columns) {
    return run({"train", "--model", "tiny", "--batch", "2", "--no-progress", "--columns", columns,
                "--output", (folder / "out").string(), "--data", (folder / "nli.jsonl").string(),
                "--data", (folder / "sts.csv").string(), "--eval", (folder / "dev.csv").string()});
  };
  const std::string columns = "premise=sentence1,hypothesis=sentence2";
  check_refused(train(columns + ",left=sentence1,right=sentence2"),
                "--columns: no file has a column 'right' to use as 'sentence2'");
  check_refused(train("premise=sentence1,left=sentence1"),
                (folder / "nli.jsonl").string() + ":1: no column 'left' to use as 'sentence1'");
  CHECK_FALSE(fs::exists(folder / "out"));
  CHECK_EQ(train(columns + ",left=sentence1").code, 0);
}

TEST_CASE("several files train with the loss their columns call for or the one they name") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "labels.csv",
                      "sentence1,sentence2,label\na,b,0\nc,d,1\ne,f,0\ng,h,1\n");
  ringlet::write_file(folder / "pairs.tsv", "anchor\tpositive\na\tb\nc\td\ne\tf\ng\th\n");
  const std::string labels = (folder / "labels.csv").string();
  const std::string pairs = (folder / "pairs.tsv").string();
  const auto train = [&](std::vector<std::string> more) {
    fs::remove_all(folder / "out");
    std::vector<std::string> all{
        "train",        "--model", "tiny", "--batch", "2", "--output", (folder / "out").string(),
        "--no-progress"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  CHECK_EQ(train({"--data", labels, "--data", pairs, "--eval", labels}).code, 0);
  CHECK_EQ(train({"--data", pairs + ":mnrl", "--padded", "--schedule", "cosine"}).code, 0);
  check_refused(train({"--data", pairs + ":softmax"}),
                "--data " + pairs + ": loss softmax needs a pair of sentences and a label");
  check_refused(train({"--data", pairs + ":softmaks"}),
                "unknown loss 'softmaks'; expected softmax, cosine or mnrl");
  check_refused(train({"--data", pairs, "--loss", "x"}),
                "unknown loss 'x'; expected softmax, cosine or mnrl");
  check_refused(train({"--data", pairs, "--eval", labels}),
                "--eval " + labels + ": expected pairs of sentences with scores");
  CHECK_FALSE(fs::exists(folder / "out"));
}
