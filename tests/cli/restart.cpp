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

/// Has the kernel send `signal` to `process` when an entry of `folder` is renamed, or at another
/// event. The signal is delivered within the rename: the renaming process takes no further step
/// before it.
class OnRename {
 public:
  OnRename(const fs::path& folder, pid_t process, int signal, int event = DN_RENAME)
      : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    REQUIRE(fd_ >= 0);
    REQUIRE_EQ(::fcntl(fd_, F_SETSIG, signal), 0);
    REQUIRE_EQ(::fcntl(fd_, F_SETOWN, process), 0);
    REQUIRE_EQ(::fcntl(fd_, F_NOTIFY, event), 0);
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

/// The launcher, of ranks that print their process ids and train when the file `go` exists.
Words waiting(const Words& launch, const fs::path& go) {
  const std::string wait =
      str("echo pid $$; until [ -e '", go.string(), "' ]; do sleep 0.02; done; ", "touch '",
          go.string(), "'-$TORCHELASTIC_RESTART_COUNT; ", "exec \"$0\" \"$@\"");
  return str(ringlet_program(), " run") + launch + Words{"sh", "-c", wait, ringlet_program()};
}

pid_t pid_of_rank(const Background& job, int rank) {
  const std::string line = str('[', rank, "] pid ");
  REQUIRE(job.says(line));
  const std::string said = job.out();
  return pids_in(said.substr(said.find(line))).at(0);
}

/// Lets ranks that wait for `go` train until `writer` has written so many lines of metrics.jsonl in
/// `output`, or a few more; that rank is stopped then.
void stop_behind_line(int lines, const fs::path& output, pid_t writer, const fs::path& go) {
  const fs::path metrics = output / "metrics.jsonl";
  do {
    const OnRename write(output, writer, SIGSTOP, DN_MODIFY);
    ringlet::write_file(go, "");
    ::kill(writer, SIGCONT);
    REQUIRE(Background::until([&] { return is_stopped(writer); }));
  } while (!fs::exists(metrics) || count(ringlet::read_file(metrics), "\n") < lines);
}

}  // namespace

TEST_CASE("a rank killed behind a checkpoint changes no bit of the model") {
  const TemporaryFolder folder;
  const fs::path undisturbed = folder / "undisturbed", output = folder / "killed";
  const fs::path first = ringlet::train::checkpoint_path(output, kSaveSteps);
  const fs::path go = folder / "go";
  REQUIRE_EQ(run(only_steps(undisturbed, kRestartSteps,
                            str("--strategy ddp --devices 2 --save-steps ", kSaveSteps)))
                 .code,
             0);

  fs::create_directory(output);
  Background job(
      waiting(str("--nproc-per-node 2 --max-restarts 1"), go) +
      only_steps(output, kRestartSteps, str("--strategy ddp --save-steps ", kSaveSteps)));
  const pid_t rank = pid_of_rank(job, 1);
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
  const auto training = [&](const std::string& name, const std::string& more) {
    return short_training(folder / name, kRestartSteps,
                          "--logging-steps 1 --audit-steps 2 " + more);
  };
  const fs::path undisturbed = folder / "undisturbed";
  REQUIRE_EQ(run(training("undisturbed", "--strategy ddp --devices 3")).code, 0);

  // Under zero2 there is no checkpoint yet: the ranks begin anew.
  for (const std::string strategy : {"ddp", "zero2"}) {
    CAPTURE(strategy);
    const fs::path output = folder / strategy, go = folder / ("go-" + strategy);
    fs::create_directory(output);
    // Rank 0 prints, writes the files and holds the lock of the folder.
    Background job(waiting(str("-n 3 --max-restarts 2 --min-ranks 1"), go) +
                   training(strategy, "--strategy " + strategy));
    const pid_t rank = pid_of_rank(job, 0);
    stop_behind_line(3, output, rank, go);
    ::kill(rank, SIGKILL);
    REQUIRE_EQ(job.wait(), 0);

    CHECK(contains(job.err(), "; going on with 2 of 3 ranks, restart 1 of 2\n"));
    CHECK((weights_in(output) == weights_in(undisturbed)));
    for (const char* figure : {"loss", "grad_norm", "lr"})
      CHECK_EQ(column(output / "metrics.jsonl", figure),
               column(undisturbed / "metrics.jsonl", figure));
    const Outcome audited = run("audit " + output.string());
    CHECK_MESSAGE(audited.code == 0, audited.err);
  }
}

TEST_CASE("with redundancy, ranks go on from memory unless neighbours are killed together") {
  const TemporaryFolder folder;
  const auto training = [&](const std::string& name, const std::string& more) {
    return short_training(folder / name, kRestartSteps, "--logging-steps 1 " + more);
  };
  const auto digests = [&](const std::string& name) {
    return ringlet::read_file(ringlet::train::checkpoint_path(folder / name, kRestartSteps) /
                              "SHA256SUMS");
  };
  const std::string at_the_end = "--save-steps 1000 --strategy ";
  REQUIRE_EQ(run(training("undisturbed", at_the_end + "ddp --devices 4 --logical-ranks 4")).code,
             0);

  struct Killed {
    std::string options;
    std::vector<int> together, later;
    const char* from;  // where they go on; empty: memory
  };
  const std::vector<Killed> cases{
      {at_the_end + "zero1", {0}, {}, ""},
      {at_the_end + "zero2 --transport gloo", {1}, {3}, ""},
      {at_the_end + "fsdp", {0, 2}, {}, ""},
      {at_the_end + "fsdp", {1, 2}, {}, "the start"},
      {"--save-steps 2 --strategy fsdp --transport gloo", {3, 0}, {}, "checkpoint-"}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Killed& one = cases[i];
    CAPTURE(i);
    const std::string name = str("killed-", i);
    const fs::path output = folder / name, go = folder / str("go-", i);
    fs::create_directory(output);
    Background job(waiting(str("-n 4 --max-restarts 3 --min-ranks 1"), go) +
                   training(name, str(one.options, " --redundancy 1")));
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.push_back(pid_of_rank(job, rank));
    stop_behind_line(3, output, ranks[0], go);
    for (const pid_t rank : ranks) ::kill(rank, SIGSTOP);
    for (const pid_t rank : ranks) REQUIRE(Background::until([&] { return is_stopped(rank); }));
    for (const int rank : one.together) ::kill(ranks.at(rank), SIGKILL);
    for (const pid_t rank : ranks) ::kill(rank, SIGCONT);
    if (!one.later.empty()) {
      stop_behind_line(10, output, ranks[0], go);
      for (const int rank : one.later) ::kill(ranks.at(rank), SIGKILL);
      ::kill(ranks[0], SIGCONT);
    }
    REQUIRE_EQ(job.wait(), 0);
    if (!one.later.empty()) CHECK(contains(job.err(), ", restart 2 of 3\n"));
    const std::string fallback = "no update has all its shards on these ranks; going on from ";
    CHECK_EQ(contains(job.err(), fallback), *one.from != 0);
    CHECK(contains(job.err(), *one.from == 0 ? "; going on with " : fallback + one.from));
    CHECK_EQ(digests(name), digests("undisturbed"));
    CHECK((weights_in(output) == weights_in(folder / "undisturbed")));
    CHECK_EQ(column(output / "metrics.jsonl", "loss"),
             column(folder / "undisturbed" / "metrics.jsonl", "loss"));
  }
  const auto refuse = [&](const std::string& options, const std::string& line) {
    const Outcome outcome =
        run(str("run -n 2 --min-ranks 1 --max-restarts 1 ", ringlet_program(), " ") +
            training("refused", options + " --redundancy 1"));
    CHECK_EQ(outcome.code, 2);
    CHECK_MESSAGE(contains(outcome.err, "--redundancy 1: expected " + line), outcome.err);
  };
  refuse("--strategy ddp", "strategy zero1, ");
  refuse("--strategy fsdp --fsdp-shard-size 1", "no --fsdp-shard-size");
  refuse("--strategy zero1 --mesh tensor=2", "neither pipe nor tensor in the mesh");
  check_refused(run(training("alone", "--strategy fsdp --devices 2 --redundancy 1")),
                "--redundancy 1: needs `ringlet run --min-ranks`, which goes on without ranks that "
                "die");
}

TEST_CASE("a rank killed while it saves the model: another saves it, and trains nothing again") {
  const TemporaryFolder folder;
  const fs::path undisturbed = folder / "undisturbed", output = folder / "killed";
  const auto training = [](const fs::path& to) {
    return short_training(to, kSaveSteps, "--strategy ddp --ema-decay 0.9 --audit-steps 2");
  };
  REQUIRE_EQ(run(training(undisturbed) + str("--devices 2")).code, 0);
  fs::create_directory(output);
  const fs::path go = folder / "go";
  Background job(waiting(str("-n 2 --max-restarts 1 --min-ranks 1"), go) + training(output));
  const pid_t rank = pid_of_rank(job, 0);
  for (const char* file : {"metrics.jsonl", "audit.jsonl"}) {
    const OnRename created(output, rank, SIGSTOP);
    ringlet::write_file(go, "");
    ::kill(rank, SIGCONT);
    REQUIRE(Background::until([&] { return is_stopped(rank); }));
    REQUIRE(fs::exists(output / file));
  }
  const OnRename model(output, rank, SIGKILL);
  ::kill(rank, SIGCONT);
  REQUIRE_EQ(job.wait(), 0);
  CHECK(contains(job.err(), "; going on with 1 of 2 ranks, restart 1 of 1\n"));
  CHECK(contains(job.out(), str("[1] ", kSaveSteps, " steps, mean loss ")));
  CHECK(contains(job.out(), "none left to train"));
  CHECK((weights_in(output) == weights_in(undisturbed)));
  const Outcome audited = run("audit " + output.string());
  CHECK_MESSAGE(audited.code == 0, audited.err);
}

TEST_CASE("a killed rank comes back into the running job and changes no bit") {
  const TemporaryFolder folder;
  const fs::path undisturbed = folder / "undisturbed";
  const auto training = [](const fs::path& to, const std::string& strategy) {
    return short_training(to, kSaveSteps, str("--logging-steps 1 --strategy ", strategy));
  };
  REQUIRE_EQ(run(training(undisturbed, "ddp") + str("--devices 2")).code, 0);
  const std::vector<std::string> strategies{"ddp", "zero1", "fsdp", "fsdp --redundancy 1", "ddp"};
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const std::string& strategy = strategies[i];
    CAPTURE(strategy);
    const bool dies_again = i == 4;  // when the others have been told of it
    const fs::path output = folder / str(i);
    fs::create_directory(output);
    const fs::path go = folder / str("go-", i);
    Background job(waiting(str("-n 2 --max-restarts 2 --min-ranks 1"), go) +
                   training(output, strategy));
    const pid_t first = pid_of_rank(job, 0), second = pid_of_rank(job, 1);
    {
      // Rank 0 creates metrics.jsonl before the first step. Rank 1 does, after rank 0 is killed.
      const OnRename metrics(output, first, SIGSTOP);
      ringlet::write_file(go, "");
      REQUIRE(Background::until([&] { return is_stopped(first); }));
    }
    {
      const OnRename metrics(output, second, SIGSTOP);
      ::kill(first, SIGKILL);
      REQUIRE(Background::until([&] { return is_stopped(second); }));
    }
    const std::string waits = "ringlet: rank 0 waits to join again\n";
    REQUIRE(Background::until([&] { return contains(job.err(), waits); }));
    if (dies_again) {
      ::kill(pids_in(job.out().substr(job.out().rfind("[0] pid "))).at(0), SIGKILL);
      const std::string dead = " was killed by SIGKILL before it joined; going on without it\n";
      REQUIRE(Background::until([&] { return contains(job.err(), dead); }));
    }
    ::kill(second, SIGCONT);
    REQUIRE_EQ(job.wait(), 0);
    CHECK(contains(job.err(),
                   dies_again ? "ringlet: going on with 1 of 2 ranks\n"
                              : "ringlet: a killed rank is back; going on with 2 of 2 ranks\n"));
    CHECK((weights_in(output) == weights_in(undisturbed)));
    CHECK_EQ(column(output / "metrics.jsonl", "loss"),
             column(undisturbed / "metrics.jsonl", "loss"));
  }
}

TEST_SUITE_END();
