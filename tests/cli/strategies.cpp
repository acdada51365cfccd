// `ringlet train --strategy`: ranks of its own, the same bytes whatever the strategy.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"
#include "ringlet/train/checkpoint.h"

namespace fs = std::filesystem;

namespace {

constexpr int kSteps = 4;

std::vector<std::string> training(const fs::path& output, std::vector<std::string> more) {
  more.insert(more.end(), {"--eval-steps", "2", "--save-steps", "2"});
  return tiny_training(output, kSteps, more);
}

Outcome train(const fs::path& output, const std::vector<std::string>& more) {
  return run(training(output, more));
}

}  // namespace

TEST_CASE("on two devices every strategy writes the same model and the same metrics") {
  const TemporaryFolder folder;
  std::string model, table;
  for (const char* strategy : {"ddp", "zero1", "zero2", "fsdp", "dp"}) {
    CAPTURE(strategy);
    const fs::path output = folder / strategy;
    const Outcome outcome = train(output, {"--strategy", strategy, "--devices", "2"});
    REQUIRE_EQ(outcome.code, 0);
    // One rank speaks.
    CHECK(outcome.out.starts_with("4 steps, mean loss"));
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
    const std::string bytes = weights_in(output);
    const std::string found =
        ringlet::read_file(output / "eval/similarity_evaluation_sts-dev_results.csv");
    if (model.empty()) model = bytes, table = found;
    CHECK((model == bytes));
    CHECK(table == found);
  }
}

TEST_CASE("under a launcher it is one of the ranks, and writes what ranks of its own would") {
  const TemporaryFolder folder;
  const fs::path own = folder / "own", launched = folder / "launched";
  REQUIRE_EQ(train(own, {"--strategy", "ddp", "--devices", "2"}).code, 0);
  std::vector<std::string> command = training(launched, {"--strategy", "fsdp"});
  command.insert(command.begin(), {"run", "--nproc-per-node", "2", RINGLET_PROGRAM});
  const Outcome outcome = run(command);
  REQUIRE_EQ(outcome.code, 0);
  CHECK((weights_in(own) == weights_in(launched)));
}

TEST_CASE("what several devices cannot do is refused before anything is written") {
  const TemporaryFolder folder;
  CHECK(train(folder / "out", {"--devices", "2"}).err.find("--devices 2: needs a --strategy") !=
        std::string::npos);
  CHECK_EQ(train(folder / "out", {"--strategy", "fast"}).code, 2);
  CHECK_FALSE(fs::exists(folder / "out"));
}

TEST_CASE("a run on several devices that is interrupted saves, says so and can be resumed") {
  const TemporaryFolder folder;
  const fs::path output = folder / "out";
  const fs::path metrics = output / "metrics.jsonl";
  const Outcome outcome =
      run(tiny_training(output, 4000, {"--strategy", "fsdp", "--devices", "2"}),
          {.signal = SIGTERM, .when = [&] {
             return fs::exists(metrics) &&
                    ringlet::read_file(metrics).find("{\"step\":10,") != std::string::npos;
           }});
  CHECK_EQ(outcome.code, 128 + SIGTERM);
  CHECK(outcome.err.find("SIGTERM after step ") != std::string::npos);
  CHECK(outcome.err.find("--resume goes on from there") != std::string::npos);
  CHECK(ringlet::train::latest_checkpoint(output).has_value());
  CHECK_FALSE(fs::exists(output / "model"));
}
