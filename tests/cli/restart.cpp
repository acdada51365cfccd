// `ringlet run --max-restarts` around `ringlet train`: lost steps are trained again, with the same
// bits.
#include <fcntl.h>
#include <filesystem>
#include <fstream>

#include "ringlet/core/base/error.h"
#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"
#include "ringlet/train/checkpoint/checkpoint.h"

TEST_SUITE_BEGIN("host");

namespace fs = std::filesystem;

namespace {

constexpr int kRestartSteps = 60;
constexpr int kSaveSteps = 20;

/// Has the kernel send `signal` to `process` when an entry of `folder` is renamed. The signal is
/// delivered within the rename: the renaming process takes no further step before it.
class OnRename {
 public:
  OnRename(const fs::path& folder, pid_t process, int signal)
      : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    REQUIRE(fd_ >= 0);
    REQUIRE_EQ(::fcntl(fd_, F_SETSIG, signal), 0);
    REQUIRE_EQ(::fcntl(fd_, F_SETOWN, process), 0);
    REQUIRE_EQ(::fcntl(fd_, F_NOTIFY, DN_RENAME), 0);
  }
  ~OnRename() { ::close(fd_); }
  OnRename(const OnRename&) = delete;
  OnRename& operator=(const OnRename&) = delete;

 private:
  int fd_;
};

bool is_stopped(pid_t process) {
  std::ifstream file(str("/proc/", process, "/stat"));
  std::string stat;
  std::getline(file, stat);
  return stat.at(stat.rfind(')') + 2) == 'T';
}

/// Ranks that print their process ids and begin when the file `go` exists.
Words waiting_training(const fs::path& output, const fs::path& go) {
  const std::string wait =
      str("echo pid $$; until [ -e '", go.string(), "' ]; do sleep 0.02; done; ", "touch '",
          go.string(), "'-$TORCHELASTIC_RESTART_COUNT; ", "exec \"$0\" \"$@\"");
  return str(ringlet_program(), " run --nproc-per-node 2 --max-restarts 1") +
         Words{"sh", "-c", wait, ringlet_program()} +
         tiny_training(output, kRestartSteps, str("--strategy ddp --save-steps ", kSaveSteps));
}

}  // namespace

TEST_CASE("a rank killed behind a checkpoint changes no bit of the model") {
  const TemporaryFolder folder;
  const fs::path undisturbed = folder / "undisturbed", output = folder / "killed";
  const fs::path first = ringlet::train::checkpoint_path(output, kSaveSteps);
  const fs::path go = folder / "go";
  REQUIRE_EQ(run(tiny_training(undisturbed, kRestartSteps,
                               str("--strategy ddp --devices 2 --save-steps ", kSaveSteps)))
                 .code,
             0);

  fs::create_directory(output);
  Background job(waiting_training(output, go));
  REQUIRE(job.says("[1] pid "));
  const std::string said = job.out();
  const pid_t rank = pids_in(said.substr(said.find("[1] pid "))).at(0);
  {
    // Rank 0 creates metrics.jsonl before the first step, then the first checkpoint.
    const OnRename metrics(output, rank, SIGSTOP);
    ringlet::write_file(go, "");
    REQUIRE(Background::until([&] { return is_stopped(rank); }));
  }
  CHECK_FALSE(fs::exists(first));
  const OnRename checkpoint(output, rank, SIGKILL);
  ::kill(rank, SIGCONT);
  REQUIRE_EQ(job.wait(), 0);

  CHECK(job.err().find("first to fail: rank 1 (pid ") != std::string::npos);
  CHECK(contains(job.err(), "ringlet: starting all ranks again, attempt 1 of 1\n"));
  CHECK(contains(job.out(), str("[0] ", kRestartSteps, " steps, mean loss ")));
  // It continued from there, not from the start.
  CHECK(fs::last_write_time(first) < fs::last_write_time(go.string() + "-1"));
  CHECK((weights_in(output) == weights_in(undisturbed)));
  CHECK(all_gone(pids_in(job.out())));
}

TEST_CASE("ranks that are killed change no bit: the others go on in the same processes") {
  const TemporaryFolder folder;
  const fs::path undisturbed = folder / "undisturbed", output = folder / "killed";
  const auto training = [](const fs::path& to) {
    return short_training(to, kRestartSteps, str("--strategy ddp --logging-steps 1"));
  };
  REQUIRE_EQ(run(training(undisturbed) + str("--devices 3")).code, 0);

  // Rank 0 prints, writes the files and holds the lock of the folder.
  Background job(str(ringlet_program(), " run -n 3 --max-restarts 2 --min-ranks 1") +
                 Words{"sh", "-c", "echo pid $$; exec \"$0\" \"$@\"", ringlet_program()} +
                 training(output));
  REQUIRE(job.says("[0] pid "));
  const std::string said = job.out();
  const pid_t rank = pids_in(said.substr(said.find("[0] pid "))).at(0);
  const auto lines = [&] {
    return fs::exists(output / "metrics.jsonl")
               ? count(ringlet::read_file(output / "metrics.jsonl"), "\n")
               : 0;
  };
  REQUIRE(Background::until([&] { return lines() >= 3; }));
  ::kill(rank, SIGKILL);
  REQUIRE_EQ(job.wait(), 0);

  CHECK(contains(job.err(), "; going on with 2 of 3 ranks, restart 1 of 2\n"));
  CHECK((weights_in(output) == weights_in(undisturbed)));
  for (const char* figure : {"loss", "grad_norm", "lr"})
    CHECK_EQ(column(output / "metrics.jsonl", figure),
             column(undisturbed / "metrics.jsonl", figure));
}

TEST_SUITE_END();
