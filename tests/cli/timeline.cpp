// Timelines of `ringlet train`.
#include "ringlet/tests/cli/trace.h"
#include "ringlet/tests/cli/training.h"
#include "ringlet/train/step/trainer_callback.h"

namespace {

namespace fs = std::filesystem;
using ringlet::train::kTimelineSteps;

}  // namespace

TEST_CASE("train --timeline writes a trace of the first steps of every rank, and draws the last" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const auto weights = [&](const std::string& output, const std::string& more) {
    const Outcome outcome = run(short_training(folder / output, kTimelineSteps + 2, more));
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    return weights_in(folder / output);
  };
  for (const std::string strategy : {"none", "dp", "ddp", "fsdp"}) {
    CAPTURE(strategy);
    const bool alone = strategy == "none", connected = strategy == "ddp" || strategy == "fsdp";
    const std::string more = str("--strategy ", strategy, alone ? "" : " --devices 2");
    const fs::path drawing = folder / (strategy + ".svg");
    // A recording changes no bit.
    CHECK(weights(strategy, more + " --timeline " + drawing.string()) ==
          weights(strategy + "-without", more));
    const Trace trace((folder / (strategy + ".json")).string());
    REQUIRE_EQ(trace.processes.size(), connected ? 2 : 1);
    for (const std::string& rank : trace.processes) {
      CAPTURE(rank);
      for (const char* phase : {"data", "forward", "backward", "optimizer"})
        CHECK_EQ(trace.number_of(rank, "phase", phase), kTimelineSteps);
      CHECK_EQ(trace.number_of(rank, "wait", "data"), kTimelineSteps);
      CHECK(trace.number_of(rank, "kernel", "attention") >= kTimelineSteps);
      CHECK(contains(ringlet::read_file(drawing), ">" + rank + ": "));
    }
    CHECK_EQ(trace.processes.back(), str(strategy, ", rank ", connected ? 1 : 0));
    CHECK((trace.most_ms(strategy, "collective", "") > 0) == connected);
    CHECK((trace.most_ms(strategy, "step", "") > 0) == connected);
  }
}

TEST_CASE("the timeline of a shorter run has all its steps, each with all its batches" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const std::string file = (folder / "short.json").string();
  const std::string more = str("--gradient-accumulation-steps 2 --timeline ", file);
  REQUIRE_EQ(run(short_training(folder / "out", 3, more)).code, 0);
  const Trace trace(file);
  CHECK_EQ(trace.number_of("none, rank 0", "phase", "backward"), 3 * 2);
  CHECK_EQ(trace.number_of("none, rank 0", "phase", "optimizer"), 3);
}

TEST_CASE("a timeline that cannot be written is refused before the first step") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& file, const std::string& line) {
    check_refused(run(short_training(folder / "out", 2, "--timeline " + file)), line);
    CHECK(!ringlet::path_exists(folder / "out/metrics.jsonl"));
  };
  refused("a.txt", "--timeline: a.txt: expected a name that ends in .json or .svg");
  const fs::path absent = folder / "absent";
  refused((absent / "a.json").string(), str("--timeline ", (absent / "a.json").string(),
                                            ": there is no folder ", absent.string()));
}
