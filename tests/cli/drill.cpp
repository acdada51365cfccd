// The program tests/drill itself; the meson test `drill` runs its trials.
#include <sys/stat.h>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"

TEST_SUITE_BEGIN("host");

namespace {

int children_of(pid_t parent) {
  int n = 0;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(process.path() / "status");
    for (std::string word; file >> word;)
      if (pid_t of = 0; word == "PPid:" && file >> of && of == parent) ++n;
  }
  return n;
}

}  // namespace

TEST_CASE("a drill that has nothing to try is refused") {
  const Outcome nccl = run_program(RINGLET_DRILL, "--transport shm,nccl");
  CHECK_EQ(nccl.code, 2);
  CHECK_EQ(nccl.err,
           "drill: --transport nccl: is for tensors on GPUs, and a drill's are on a CPU\n");
  const Outcome thread =
      run_program(RINGLET_DRILL, "--transport shm,thread --faults killed,disk_full");
  CHECK_EQ(thread.code, 2);
  CHECK_EQ(thread.err, "drill: --faults: ranks over thread can have none of these\n");
  const Outcome option = run_program(RINGLET_DRILL, "--trails 3");
  CHECK_EQ(option.code, 2);
  CHECK_EQ(option.err, "drill: unknown option '--trails'; did you mean --trials?\n");
}

// Each line reports the ranks and points that the seed draws.
TEST_CASE("any rank that writes a checkpoint fails in it, rank 0 also in creating its files") {
  const Outcome outcome = run_program(
      RINGLET_DRILL, "--transport shm --faults killed_saving,disk_full --trials 8 --seed 88");
  INFO(outcome.out);
  REQUIRE_EQ(outcome.code, 0);
  CHECK(outcome.out.ends_with("8 trials, 0 failed\n"));
  for (const char* fault : {"killed_saving", "disk_full    "}) {
    const auto drawn = [&](const std::string& rank, const char* where) {
      std::istringstream lines(outcome.out);
      for (std::string line; std::getline(lines, line);)
        if (contains(line, fault + (" rank " + rank)) && contains(line, where)) return true;
      return false;
    };
    CAPTURE(fault);
    CHECK(drawn("0", ", creating the files"));
    for (const char* rank : {"0", "1", "2"}) CHECK(drawn(rank, " % of its writes"));
  }
}

TEST_CASE("a drill that is told to end stops, and leaves nothing") {
  const TemporaryFolder folder;
  Background job({RINGLET_DRILL, "--trials", "100", "--transport", "shm"},
                 {{"TMPDIR", folder.path().string()}});
  const auto trial_runs = [&] {
    for (const auto& work : std::filesystem::directory_iterator(folder.path()))
      if (std::filesystem::exists(work.path() / "trial-0" / "logs")) return true;
    return false;
  };
  REQUIRE(Background::until(trial_runs));
  job.signal(SIGTERM);
  CHECK_EQ(job.wait(), 128 + SIGTERM);
  CHECK_EQ(folder.entries(), 0);
}

// The first trial's verdict goes into a full pipe, so the second one cannot begin.
TEST_CASE("told to end between two trials it leaves nothing, either") {
  const TemporaryFolder folder;
  const std::filesystem::path work = folder / "work";
  const std::string pipe = (folder / "pipe").string();
  std::filesystem::create_directory(work);
  REQUIRE_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  const int writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK);
  const std::string bytes(1 << 12, '.');
  while (::write(writer, bytes.data(), bytes.size()) > 0) {
  }
  while (::write(writer, ".", 1) > 0) {
  }
  Background job({"sh", "-c", "exec \"$0\" \"$@\" > " + pipe, RINGLET_DRILL, "--transport",
                  "thread", "--faults", "nan", "--trials", "100"},
                 {{"TMPDIR", work.string()}});
  // The trial is over and no rank is left: the drill is about to print, or blocked in it.
  const auto said = [&] {
    for (const auto& drill : std::filesystem::directory_iterator(work))
      return std::filesystem::exists(drill.path() / "trial-0/run/checkpoint-8") &&
             children_of(job.pid()) == 0;
    return false;
  };
  REQUIRE(Background::until(said));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  job.signal(SIGTERM);
  std::string rest(1 << 16, ' ');
  ::close(writer);
  CHECK(Background::until([&] { return ::read(reader, rest.data(), rest.size()) == 0; }));
  CHECK_EQ(job.wait(), 128 + SIGTERM);
  ::close(reader);
  CHECK(std::filesystem::is_empty(work));
}

TEST_SUITE_END();
