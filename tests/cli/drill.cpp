// `ringlet drill` itself; what it finds is the meson test of its name.
#include <filesystem>

#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"

TEST_CASE("a drill that is told to end stops, and leaves nothing") {
  const TemporaryFolder folder;
  Background job(
      {RINGLET_PROGRAM, "drill", "--trials", "100", "--transport", "shm", "--timeout", "60"},
      {{"TMPDIR", folder.path().string()}});
  const auto trial_runs = [&] {
    for (const auto& work : std::filesystem::directory_iterator(folder.path()))
      if (std::filesystem::exists(work.path() / "trial-0" / "logs")) return true;
    return false;
  };
  REQUIRE(Background::until(trial_runs, 60));
  job.signal(SIGTERM);
  CHECK_EQ(job.wait(20), 128 + SIGTERM);
  CHECK_EQ(folder.entries(), 0);
}
