// One run at a time trains into an --output; its lock ends with its processes.
#include "ringlet/train/cli/output.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include "ringlet/core/base/error.h"
#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"

TEST_SUITE_BEGIN("host");

namespace fs = std::filesystem;
using ringlet::read_file;

namespace {

Words program(const Words& arguments) { return Words{ringlet_program()} + arguments; }

/// A run that has written a checkpoint and goes on.
struct LockedOutput {
  TemporaryFolder folder;
  fs::path output = folder / "out";

  Words training(const Words& more) const {
    return tiny_training(output, 1'000'000, "--save-steps 5" + more);
  }
  void wait_for_checkpoint() const {
    REQUIRE(Background::until([&] { return fs::exists(output / "checkpoint-5"); }));
  }
};

}  // namespace

TEST_CASE_FIXTURE(LockedOutput,
                  "a second run with the same --output is refused while the first lives") {
  for (const Words& more : {Words(), Words("--strategy ddp --devices 2")}) {
    fs::remove_all(output);
    const Background first(program(training(more)));
    wait_for_checkpoint();
    const std::string line =
        str("--output ", output.string(), ": another run writes to it (process ", first.pid());
    for (const char* resume : {"--no-progress", "--resume"}) {
      const Outcome refused = run(training({resume}));
      CHECK_EQ(refused.code, 2);
      CHECK(refused.err.starts_with("ringlet: " + line));
      CHECK_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1);
    }
    const Outcome launched =
        run("run --nproc-per-node 2" +
            program(tiny_training(output, 1'000'000, "--strategy ddp --resume")));
    CHECK_EQ(launched.code, 2);
    CHECK(launched.err.starts_with("[0] ringlet: " + line));
    CHECK_EQ(std::count(launched.err.begin(), launched.err.end(), '\n'), 2);
  }
}

TEST_CASE_FIXTURE(LockedOutput, "a lock does not outlive its run, however it ended") {
  for (const Words& more : {Words(), Words("--strategy ddp --devices 2")}) {
    fs::remove_all(output);
    Background first(program(training(more)));
    wait_for_checkpoint();
    first.signal(SIGKILL);
    CHECK_EQ(first.wait(), 1000 + SIGKILL);
    CHECK(fs::exists(output / ".ringlet-lock"));
    // Its ranks have been killed with it, and may still be ending.
    REQUIRE(Background::until([&] {
      return run_program("flock", {"-n", (output / ".ringlet-lock").string(), "true"}).code == 0;
    }));
    const Outcome resumed =
        run(training(more + "--resume"), {.signal = SIGTERM, .when = [&] {
                                            return fs::exists(output / ".ringlet-lock") &&
                                                   fs::exists(output / "checkpoint-20");
                                          }});
    CHECK_EQ(resumed.code, 128 + SIGTERM);
    CHECK_FALSE(fs::exists(output / ".ringlet-lock"));
  }
}

TEST_CASE_FIXTURE(LockedOutput,
                  "ranks that are started again wait for those that are still ending") {
  fs::create_directory(output);
  const std::string lock = (output / ".ringlet-lock").string();
  const std::string ready = (folder / "ready").string(), go = (folder / "go").string();
  const Background old({"flock", lock, "sh", "-c",
                        "touch " + ready + "; until [ -e " + go + " ]; do sleep 0.02; done"});
  REQUIRE(Background::until([&] { return fs::exists(ready); }));
  CHECK_EQ(run(only_steps(output, 2)).code, 2);
  Background again(program(only_steps(output, 2)),
                   {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RESTART_COUNT", "1"}});
  ringlet::write_file(go, "");
  CHECK_EQ(again.wait(), 0);
  CHECK(fs::exists(output / "model"));
}

TEST_CASE_FIXTURE(LockedOutput,
                  "a run that is refused leaves no folder, and finds its own place again") {
  const fs::path below = folder / "a/b/out";
  CHECK_EQ(run(tiny_training(below.string() + "/", 1, "--data absent.csv")).code, 2);
  CHECK_EQ(folder.entries(), 0);
  CHECK_EQ(run(only_steps(below.string() + "/", 1)).code, 0);
  CHECK(fs::exists(below / "model"));
  CHECK_FALSE(fs::exists(below / ".ringlet-lock"));
}

TEST_CASE("a lock that vanishes before it is taken belongs to no other run") {
  const TemporaryFolder folder;
  const fs::path lock = folder / ".ringlet-lock";
  std::atomic<bool> stop{false};
  std::thread remover([&] {  // as runs that end
    while (!stop) fs::remove(lock);
  });
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      const ringlet::cli::OutputLock held(folder.path(), std::chrono::seconds(0));
    } catch (const ringlet::InputError&) {
      ++refused;
    }
  }
  stop = true;
  remover.join();
  CHECK_EQ(refused, 0);
}

TEST_SUITE_END();
