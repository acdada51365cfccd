// The same program under other launchers: with their environment set by hand, and under the
// launchers themselves if they are installed.
#include <memory>

#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/processors.h"
#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/ports.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/comm/environment.h"

TEST_SUITE_BEGIN("host");

namespace {

using Variables = std::map<std::string, std::string>;

const std::string program_of_ranks = RINGLET_RANK_PROGRAM;

/// The output of all ranks, started by hand with these variables.
std::string outputs(const std::vector<Variables>& ranks, const std::string& mode) {
  return with_environment({}, [&] {
    std::vector<std::unique_ptr<Background>> programs;
    for (const Variables& variables : ranks)
      programs.push_back(std::make_unique<Background>(Words{program_of_ranks, mode}, variables));
    std::string out;
    for (const auto& program : programs) {
      CHECK_EQ(program->wait(), 0);
      CHECK_EQ(program->err(), "");
      out += program->out();
    }
    return out;
  });
}

void check_sums(const std::string& out, int n) {
  for (int rank = 0; rank < n; ++rank)
    CHECK_EQ(count(out, str("rank ", rank, ": the sum is ", n * (n - 1) / 2, " over ", n,
                            n == 1 ? ", auto" : ", shm", ", cpu:0 with ")),
             1);
}

/// Runs the launcher with these arguments, if it can run `true`, and checks the output of its
/// ranks. It may be missing, or installed without the configuration that it needs.
void check_launcher(const std::string& launcher, Words arguments, int n) {
  const Outcome works =
      with_environment({}, [&] { return run_program(launcher, arguments + Words{"true"}); });
  if (works.code != 0) {
    MESSAGE("skipped: " << launcher << " does not run `true`: exit code " << works.code << ", "
                        << works.err);
    return;
  }
  const Outcome outcome = with_environment({}, [&] {
    return run_program(launcher, arguments + Words{program_of_ranks, "group"});
  });
  CAPTURE(outcome.err);
  CHECK_EQ(outcome.code, 0);
  check_sums(outcome.out, n);
}

}  // namespace

TEST_CASE("a program without a launcher is a world of one") {
  CHECK_EQ(outputs({{}}, "group"), str("rank 0: the sum is 0 over 1, auto, cpu:0 with ",
                                       ringlet::usable_processors(), " threads\n"));
}

TEST_CASE("under torchrun's variables rank 0 keeps the store") {
  const std::string port = free_port();
  std::vector<Variables> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back({{"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", "3"},
                     {"LOCAL_RANK", std::to_string(rank)},
                     {"LOCAL_WORLD_SIZE", "3"},
                     {"MASTER_ADDR", "some.name.elsewhere"},  // all are local: use loopback
                     {"MASTER_PORT", port}});
  check_sums(outputs(ranks, "group"), 3);
  for (Variables& rank : ranks) rank["RINGLET_TOKEN"] = "a secret of this test";
  check_sums(outputs(ranks, "group"), 3);
}

TEST_CASE("under Open MPI's and Slurm's variables, too") {
  std::vector<Variables> mpi;
  std::vector<Variables> slurm;
  for (const char* rank : {"0", "1"}) {
    mpi.push_back({{"OMPI_COMM_WORLD_RANK", rank},
                   {"OMPI_COMM_WORLD_SIZE", "2"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                   {"PMIX_NAMESPACE", str("test ", getpid())}});
    slurm.push_back({{"SLURM_PROCID", rank},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_LOCALID", rank},
                     {"SLURM_STEP_TASKS_PER_NODE", "2"},
                     {"SLURM_STEP_NODELIST", "node[1-2]"},
                     {"SLURM_JOB_ID", str(getpid())}});
  }
  check_sums(outputs(mpi, "group"), 2);
  check_sums(outputs(slurm, "group"), 2);
}

TEST_CASE("variables that make no sense end the program with code 2") {
  with_environment({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, [] {
    const Outcome outcome = run_program(program_of_ranks, {"group"});
    CHECK_EQ(outcome.code, 2);
    CHECK_EQ(outcome.err, "rank_program: RANK=2: expected a number from 0 to 1\n");
  });
  with_environment(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "192.0.2.1"}, {"MASTER_PORT", "29500"}},
      [] {
        const Outcome outcome = run_program(program_of_ranks, {"group"});
        CHECK_EQ(outcome.code, 2);
        CHECK_EQ(outcome.err,
                 "rank_program: RINGLET_TOKEN: expected a secret that all hosts know "
                 "(or RINGLET_TOKEN_FILE), as 192.0.2.1 accepts connections of any host\n");
      });
}

TEST_CASE("ranks share the host's processors") {
  const int all = ringlet::usable_processors();
  for (const int n : {1, 2, 3}) {
    for (const char* pin : {"--grace=5", "--no-pin"}) {
      const Outcome outcome =
          run(str("run --nproc-per-node ", n, " ", pin, " ", program_of_ranks, " group"));
      CHECK_EQ(outcome.code, 0);
      int threads = 0;
      for (std::size_t at = 0; (at = outcome.out.find(" with ", at)) != std::string::npos; ++at)
        threads += std::stoi(outcome.out.substr(at + 6));
      CHECK(threads <= std::max(all, n));
      CHECK(threads >= std::max(all - n + 1, n));
    }
  }
}

// Another job on this host may use their default port, 29500. torchrun 1.13 has no other spelling
// and, under Python 3.11, requires an explicit redirection.
TEST_CASE("torchrun starts it") {
  const std::string port = free_port();
  const TemporaryFolder logs;
  check_launcher("torchrun",
                 str("--nproc_per_node 2 --master_port ", port, " --no_python -r 1 -t 1 --log_dir ",
                     logs.path().string()),
                 2);
}

// With --cpu it starts one process regardless of the number; without, it does not look for a GPU.
TEST_CASE("accelerate starts it") {
  const std::string port = free_port();
  check_launcher(
      "accelerate",
      str("launch --multi_gpu --num_processes 2 --main_process_port ", port, " --no_python"), 2);
  check_launcher("accelerate",
                 str("launch --cpu --num_processes 1 --main_process_port ", port, " --no_python"),
                 1);
}

TEST_CASE("mpirun starts it") {
  check_launcher("mpirun", "--allow-run-as-root --oversubscribe -n 2", 2);
}

TEST_CASE("srun starts it") { check_launcher("srun", "-n 2", 2); }

TEST_SUITE_END();
