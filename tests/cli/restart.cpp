// `ringlet run --max-restarts` around `ringlet train`: what was lost is trained again, with the
// same bits.
#include <filesystem>

#include "ringlet/core/error.h"
#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"
#include "ringlet/train/checkpoint.h"

namespace fs = std::filesystem;
using ringlet::concat;

namespace {

constexpr int kSteps = 60;
constexpr int kSaveSteps = 20;

/// Ranks that say their process ids before they train.
std::vector<std::string> training(const fs::path& output) {
  std::vector<std::string> command{RINGLET_PROGRAM,
                                   "run",
                                   "--nproc-per-node",
                                   "2",
                                   "--max-restarts",
                                   "1",
                                   "sh",
                                   "-c",
                                   "echo pid $$; exec \"$0\" \"$@\"",
                                   RINGLET_PROGRAM};
  for (const std::string& word : tiny_training(
           output, kSteps, {"--strategy", "ddp", "--save-steps", std::to_string(kSaveSteps)}))
    command.push_back(word);
  return command;
}

}  // namespace

TEST_CASE("a rank killed behind a checkpoint changes no bit of the model") {
  const TemporaryFolder folder;
  const std::vector<std::string> command = training(folder / "undisturbed");
  REQUIRE_EQ(run_program(command[0], {command.begin() + 1, command.end()}).code, 0);

  const fs::path output = folder / "killed";
  const fs::path first = ringlet::train::checkpoint_path(output, kSaveSteps);
  Background job(training(output));
  REQUIRE(job.says("[1] pid "));
  REQUIRE(Background::until([&] { return fs::exists(first); }, 60));
  const auto saved = fs::last_write_time(first);
  const std::string said = job.out();
  REQUIRE_EQ(::kill(pids_in(said.substr(said.find("[1] pid "))).at(0), SIGKILL), 0);

  CHECK_EQ(job.wait(120), 0);
  const std::string err = job.err();
  CHECK(err.find("first to fail: rank 1 (pid ") != err.npos);
  CHECK(err.find("ringlet: starting all ranks again, attempt 1 of 1\n") != err.npos);
  CHECK(job.out().find(concat("[0] ", kSteps, " steps, mean loss ")) != std::string::npos);
  CHECK(fs::last_write_time(first) == saved);  // it went on from there, not from the start
  CHECK((weights_in(output) == weights_in(folder / "undisturbed")));
  CHECK(all_gone(pids_in(job.out())));
}
