// `ringlet run`, with real processes: RINGLET_RANK_PROGRAM is tests/comm/rank_program.cpp.
#include <chrono>
#include <filesystem>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/processors.h"
#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/ports.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/extended.h"

TEST_SUITE_BEGIN("host");

namespace {

const std::string rank_program = RINGLET_RANK_PROGRAM;

Words run_command(const Words& options, const Words& program) {
  return Words{ringlet_program(), "run"} + options + program;
}

/// One of two nodes, both on this host.
Words node_command(const std::string& port, const std::string& rank, const Words& more,
                   const Words& program) {
  return run_command(
      str("--nnodes 2 --node-rank ", rank, " --master-addr 127.0.0.2 --master-port ", port) + more,
      program);
}

Outcome launch(const Words& options, const Words& program, const RunOptions& how = {}) {
  return run("run" + options + program, how);
}

Words shell(const std::string& script) { return {"sh", "-c", script}; }

// Parts of scripts: ranks wait for each other, not for some time.
std::string until_there(const std::filesystem::path& file) {
  return str("until [ -e '", file.string(), "' ]; do sleep 0.02; done; ");
}
std::string stops(const std::filesystem::path& its_pid) {
  return str("echo $$ > '", its_pid.string(), "'; kill -STOP $$; ");
}
std::string until_stopped(const std::filesystem::path& its_pid) {
  return str("until grep -qs '^State:.T' /proc/$(cat '", its_pid.string(),
             "' 2>&-)/status; do sleep 0.02; done; ");
}

#if defined(RINGLET_TESTS_GLOO)
constexpr bool has_gloo = true;
#else
constexpr bool has_gloo = false;
#endif

double seconds_of(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("ranks find each other, and their lines name them") {
  const Outcome outcome = launch("--nproc-per-node 3", str(rank_program, " meet"));
  CHECK_EQ(outcome.code, 0);
  CHECK_EQ(outcome.err, "");
  for (int rank = 0; rank < 3; ++rank)
    CHECK(contains(outcome.out, str('[', rank, "] rank ", rank, " of 3, local ", rank,
                                    " of 3, attempt 0, pid ")));
  CHECK(all_gone(pids_in(outcome.out)));
}

TEST_CASE("-n is mpirun's name of --nproc-per-node") {
  for (const char* n : {"-n 2", "-n2"}) {
    const Outcome outcome = launch(n, shell("echo $RANK of $WORLD_SIZE"));
    CHECK_EQ(outcome.code, 0);
    for (const char* rank : {"0", "1"})
      CHECK(contains(outcome.out, str('[', rank, "] ", rank, " of 2\n")));
  }
  check_refused(run({"run", "-n", "0", "true"}),
                "--nproc-per-node 0: expected a number up to 4096, cpu, gpu or auto");
}

TEST_CASE("one rank is a world of one, and its lines stay as they are") {
  const Outcome outcome = launch({}, str(rank_program, " meet"));
  CHECK_EQ(outcome.code, 0);
  CHECK_EQ(outcome.out, "rank 0 of 1\n");
}

TEST_CASE("a program sees torchrun's variables and keeps its own arguments") {
  const Outcome outcome =
      launch("--nproc_per_node=2 --max_restarts 4 --rdzv_id job --",
             shell("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $ROLE_RANK "
                   "$MASTER_ADDR $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS "
                   "$TORCHELASTIC_RUN_ID; test \"$RINGLET_PINNED\" = \"" +
                   std::string(ringlet::usable_processors() < 2 ? "" : "1") +
                   "\" && test $MASTER_PORT -gt 0 && test ${#RINGLET_TOKEN} -eq 64"));
  CHECK_EQ(outcome.code, 0);
  for (const char* rank : {"0", "1"})
    CHECK(contains(outcome.out,
                   str('[', rank, "] ", rank, ' ', rank, " 2 2 0 ", rank, " 127.0.0.1 0 4 job\n")));
  // Options after the program are the program's.
  CHECK_EQ(launch({}, "echo --nproc-per-node 7 -- --help").out, "--nproc-per-node 7 -- --help\n");
}

TEST_CASE("standard input is rank 0's") {
  const Outcome outcome =
      launch("--nproc-per-node 2", shell("cat; echo end"), {.input = "for the first\n"});
  CHECK_EQ(outcome.code, 0);
  CHECK(contains(outcome.out, "[0] for the first\n"));  // output of other ranks may come between
  CHECK(contains(outcome.out, "[0] end\n"));
  CHECK(contains(outcome.out, "[1] end\n"));
  CHECK_FALSE(contains(outcome.out, "[1] for"));
}

TEST_CASE("the first rank to fail is named, with its last lines, and gives the exit code") {
  Outcome outcome;
  const double seconds =
      seconds_of([&] { outcome = launch("--nproc-per-node 3", str(rank_program, " exit 1 7")); });
  CHECK_EQ(outcome.code, 7);
  CHECK(seconds < 200);
  CHECK(contains(outcome.err, "ringlet: first to fail: rank 1 (pid "));
  // The store and the launcher detect its end at about the same time.
  CHECK(contains(outcome.err,
                 " exited with code 7\n"
                 "ringlet: the last lines of rank 1:\n  about to fail\n  with 7\n"));
  // The other ranks received the error and ended by themselves, with the same cause.
  for (const char* rank : {"0", "2"})
    CHECK(contains(outcome.err, str('[', rank, "] rank_program: rank 1 (pid ")));
  CHECK(all_gone(pids_in(outcome.out)));
}

TEST_CASE("bad input is two lines: the first refusal, and its rank") {
  const Outcome outcome =
      launch("--nproc-per-node 3", str(ringlet_program(), " train --model tiny --batch 0"));
  CHECK_EQ(outcome.code, 2);
  CHECK(contains(outcome.err,
                 "] ringlet: --batch: expected a whole number from 1 to 1048576, found '0'\n"
                 "ringlet: first to fail: rank "));
  CHECK(outcome.err.ends_with(" exited with code 2\n"));
  CHECK_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2);
}

TEST_CASE("a line like an error of a rank that runs on is shown") {
  const Background running(run_command({}, shell("echo 'ringlet: waits' >&2; exec sleep 600")));
  CHECK(Background::until([&] { return contains(running.err(), "ringlet: waits\n"); }));
}

TEST_CASE("a rank that is killed gives 128 + the signal") {
  const Outcome outcome = launch("--nproc-per-node 3", str(rank_program, " kill 2"));
  CHECK_EQ(outcome.code, 128 + SIGKILL);
  CHECK(contains(outcome.err, "first to fail: rank 2 (pid "));
  CHECK(contains(outcome.err, " was killed by SIGKILL\n"));
  CHECK(all_gone(pids_in(outcome.out)));
}

TEST_CASE("a rank that throws is the root cause, not those that heard of it") {
  const Outcome outcome = launch("--nproc-per-node 3", str(rank_program, " throw 0"));
  CHECK_EQ(outcome.code, 1);
  CHECK(contains(outcome.err, "first to fail: rank 0 (pid "));
  CHECK(
      contains(outcome.err, "the last lines of rank 0:\n  rank_program: rank 0 has its reasons\n"));
}

TEST_CASE("programs that join no store are ended, too: SIGTERM, then SIGKILL") {
  const TemporaryFolder folder;
  const std::string said = (folder / "said").string(), ready = (folder / "ready-").string();
  Outcome outcome;
  const double seconds = seconds_of([&] {
    outcome = launch("--nproc-per-node 3 --grace 2",
                     shell("echo pid $$; case $RANK in 0) trap 'echo polite > " + said +
                           "; exit 0' TERM;; 1) trap '' TERM;; 2) " + until_there(ready + "0") +
                           until_there(ready + "1") + "exit 9;; esac; touch " + ready +
                           "$RANK; while :; do sleep 0.1; done"));
  });
  CHECK_EQ(outcome.code, 9);
  CHECK(seconds < 200);
  CHECK(contains(outcome.err, ") exited with code 9\n"));
  CHECK_EQ(ringlet::read_file(said), "polite\n");
  CHECK(all_gone(pids_in(outcome.out)));
}

TEST_CASE("a rank that has stopped is killed with the others") {
  const TemporaryFolder folder;
  Outcome outcome;
  const double seconds = seconds_of([&] {
    outcome = launch("--nproc-per-node 2 --grace 0.5",
                     shell("echo pid $$; if [ $RANK = 0 ]; then " + stops(folder / "pid") + "fi; " +
                           until_stopped(folder / "pid") + "exit 3"));
  });
  CHECK_EQ(outcome.code, 3);
  CHECK(seconds < 200);
  CHECK(all_gone(pids_in(outcome.out)));
}

TEST_CASE("--max-restarts starts all ranks again with a store of their own") {
  const Outcome good =
      launch("--nproc-per-node 3 --max-restarts 3", str(rank_program, " kill 2 2"));
  CHECK_EQ(good.code, 0);
  for (int rank = 0; rank < 3; ++rank)
    for (int attempt = 0; attempt < 3; ++attempt)
      CHECK(contains(good.out, str('[', rank, "] rank ", rank, " of 3, local ", rank,
                                   " of 3, attempt ", attempt, ", pid ")));
  CHECK_FALSE(contains(good.out, "attempt 3"));
  CHECK(contains(good.err, "ringlet: starting all ranks again, attempt 2 of 3\n"));
  CHECK(all_gone(pids_in(good.out)));

  const Outcome bad = launch("--nproc-per-node 2 --max-restarts 1", str(rank_program, " exit 0 4"));
  CHECK_EQ(bad.code, 4);
  CHECK_EQ(count(bad.err, "first to fail: rank 0"), 2);
  CHECK(contains(bad.err, "ringlet: --max-restarts 1 is used up: not started again\n"));

  const Outcome refused = launch("-n 2 --max-restarts 3", shell("echo wrong >&2; exit 2"));
  CHECK_EQ(refused.code, 2);
  CHECK_FALSE(contains(refused.err, "again"));
}

TEST_CASE("--min-ranks leaves killed ranks out of a restart") {
  // Rank 1 is killed, then the rank that has its number.
  const Words killed = shell("echo $RANK of $WORLD_SIZE; [ $RANK = 1 ] && kill -KILL $$; exit 0");
  const Outcome good = launch("-n 3 --max-restarts 5 --min-ranks 1", killed);
  CHECK_EQ(good.code, 0);
  CHECK(contains(good.err, "ringlet: starting 2 of 3 ranks again, attempt 1 of 5\n"));
  CHECK(contains(good.err, "ringlet: starting 1 of 3 ranks again, attempt 2 of 5\n"));
  CHECK(contains(good.out, "0 of 1\n"));

  const Outcome few = launch("-n 3 --max-restarts 5 --min-ranks 3", killed);
  CHECK_EQ(few.code, 128 + SIGKILL);
  CHECK(contains(few.err, "ringlet: 2 of 3 ranks are left, expected at least --min-ranks 3\n"));

  // A rank that exits is not lost, nor is one that the launcher ends.
  const Outcome all = launch("-n 2 --max-restarts 1 --min-ranks 1",
                             shell("echo $RANK of $WORLD_SIZE; [ $RANK = 0 ] && exit 3; sleep 60"));
  CHECK_EQ(all.code, 3);
  CHECK(contains(all.err, "ringlet: starting all ranks again, attempt 1 of 1\n"));

  // Nor is a stopped rank waited for: it is killed after the grace, and is lost.
  const TemporaryFolder folder;
  const Outcome stopped = launch(
      "-n 2 --max-restarts 1 --min-ranks 1 --grace 0.2",
      shell("echo $RANK of $WORLD_SIZE; [ $WORLD_SIZE = 1 ] && exit 0; if [ $RANK = 1 ]; " +
            ("then " + stops(folder / "pid") + "fi; ") + until_stopped(folder / "pid") + "exit 4"));
  CHECK_EQ(stopped.code, 0);
  CHECK(contains(stopped.err, "ringlet: starting 1 of 2 ranks again, attempt 1 of 1\n"));
}

TEST_CASE("--min-ranks: the ranks that are left go on in the same processes") {
  for (const char* transport : {"shm", "gloo"}) {
    CAPTURE(transport);
    const Outcome killed = launch("-n 4 --max-restarts 3 --min-ranks 2",
                                  str(rank_program, " regroup 2,0 kill ", transport));
    CHECK_EQ(killed.code, 0);
    CHECK(contains(killed.out, "[3] rank 3: the sum is 4, now rank 3\n"));
    CHECK(contains(killed.out, "[0] rank 0: the sum is 3, now rank 0\n"));
    CHECK(contains(killed.out, "[3] rank 3: the sum is 2, now rank 1\n"));
    CHECK(contains(killed.err, "; going on with 3 of 4 ranks, restart 1 of 3\n"));
    CHECK(contains(killed.err, "; going on with 2 of 4 ranks, restart 2 of 3\n"));
  }
  // A rank may end in order meanwhile.
  const Outcome left = launch("-n 4 --max-restarts 3 --min-ranks 2", str(rank_program, " leave"));
  CHECK_EQ(left.code, 0);
  CHECK(contains(left.err, "; going on with 2 of 4 ranks, restart 1 of 3\n"));
  CHECK(contains(left.out, "[3] rank 3: the sum is 2\n"));

  // A stopped rank is named after the group's timeout (3 s), and killed after the grace, for which
  // the others wait.
  const Outcome stopped = launch("-n 2 --max-restarts 1 --min-ranks 1 --grace 3.5",
                                 str(rank_program, " regroup 0 stop"));
  CHECK_EQ(stopped.code, 0);
  CHECK(contains(stopped.out, "[1] rank 1: the sum is 1, now rank 0\n"));

  // Too few are left: the job ends with the first cause. So does a job with an error of a rank.
  const Outcome few =
      launch("-n 2 --max-restarts 1 --min-ranks 2", str(rank_program, " regroup 1 kill"));
  CHECK_EQ(few.code, 128 + SIGKILL);
  CHECK(contains(few.err, "ringlet: first to fail: rank 1 (pid "));
  CHECK_EQ(count(few.err, "rank 1 (pid "), 2);  // by the launcher, and by rank 0
  const Outcome error =
      launch("-n 2 --max-restarts 1 --min-ranks 1", str(rank_program, " regroup 1 throw"));
  CHECK_EQ(error.code, 1);
  CHECK(contains(error.err, "ringlet: first to fail: rank 1: has its reasons; it exited with "));
}

TEST_CASE("--min-ranks: a killed rank is started anew and joins the ranks that run") {
  for (const char* victim : {"0", "1"}) {  // with two ranks the world has one in between
    CAPTURE(victim);
    const Outcome back =
        launch("-n 2 --max-restarts 2 --min-ranks 1", str(rank_program, " rejoin ", victim));
    CHECK_EQ(back.code, 0);
    CHECK(contains(back.err, "; going on with 1 of 2 ranks, restart 1 of 2\n"));
    CHECK(contains(back.err, str("ringlet: rank ", victim, " waits to join again\n")));
    CHECK(contains(back.err, "ringlet: a killed rank is back; going on with 2 of 2 ranks\n"));
    for (const char* rank : {"0", "1"})
      CHECK(contains(back.out, str("rank ", rank, ": the sum is 2, now rank ", rank, '\n')));
  }
  // With no restart left to lose it again it stays away.
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "file";
  const Outcome dead =
      launch("-n 3 --max-restarts 2 --min-ranks 1", str(rank_program, " rejoin 1 ", file.string()));
  CHECK_EQ(dead.code, 0);
  CHECK(std::filesystem::exists(file));
  CHECK_FALSE(contains(dead.err, "is back"));
}

TEST_CASE("signals go to the ranks, and stop the launcher") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    CAPTURE(number);
    Background job(run_command("--nproc-per-node 2 --max-restarts 2",
                               shell("trap 'echo heard; exit 0' INT TERM HUP QUIT; echo pid $$; "
                                     "while :; do sleep 0.05; done")));
    REQUIRE(job.says("pid ", 2));
    job.signal(number);
    CHECK_EQ(job.wait(), 128 + number);
    CHECK_EQ(count(job.out(), "heard"), 2);
    CHECK(all_gone(pids_in(job.out())));
  }
}

TEST_CASE("signals that nohup ignores stay ignored, also in ranks") {
  const Words ignoring{"sh", "-c", "trap '' HUP INT QUIT; exec \"$0\" \"$@\""};
  Background job(ignoring +
                 run_command("--nproc-per-node 2",
                             shell("grep -q 'SigIgn.*7$' /proc/self/status && echo kept; "
                                   "echo pid $$; "
                                   "while :; do sleep 0.05; done")));
  REQUIRE(job.says("pid ", 2));
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) job.signal(number);
  CHECK_EQ(job.wait(), 128 + SIGTERM);  // a signal before it would be the one that ended the job
  CHECK_EQ(count(job.out(), "kept\n"), 2);
}

TEST_CASE("a signal comes once, with time to save; a failure ends the peers within seconds") {
  // `train` saves after the first SIGTERM, and a second one would end it.
  Background saving(run_command(
      "--nproc-per-node 2",
      shell("trap 'trap - TERM; sleep 3; echo saved; exit 0' TERM; echo pid $$; while :; do sleep "
            "0.05; done")));
  // A rank that ignores SIGTERM does not delay the end of a failed job.
  Background failing(
      run_command("--nproc-per-node 2 --grace 600",
                  shell("trap '' TERM; [ $RANK = 0 ] || exit 7; echo pid $$; while :; "
                        "do sleep 0.05; done")));
  REQUIRE(saving.says("pid ", 2));
  saving.signal(SIGTERM);
  CHECK_EQ(saving.wait(), 128 + SIGTERM);
  CHECK_EQ(count(saving.out(), "saved"), 2);
  CHECK_EQ(failing.wait(), 7);
  CHECK(all_gone(pids_in(saving.out() + failing.out())));
}

TEST_CASE("a rank that exits with 0 while its peers need it ends them, long before the timeout") {
  struct Setting {
    const char *when, *transport;
  };
  for (const Setting& with : {Setting{"before", "auto"}, Setting{"after", "shm"},
                              Setting{"after", has_gloo ? "gloo" : "shm"}}) {
    CAPTURE(with.when);
    Outcome outcome;
    const double seconds = seconds_of([&] {
      outcome = launch("--nproc-per-node 3",
                       str(rank_program, " early 1 ", with.when, " ", with.transport));
    });
    CHECK_EQ(outcome.code, 1);
    CHECK(seconds < 200);
    CHECK(contains(outcome.err, "ringlet: first to fail: rank "));
    if (with.when == std::string("before")) {
      CHECK(contains(outcome.err,
                     " exited with code 0 before it joined the group of all ranks; rank "));
      CHECK(contains(outcome.err, " was making the group world\n"));
    } else {
      // Two collectives belong to init_from_env(), two sums completed.
      CHECK(contains(outcome.err, "[all_reduce] collective 5 (f32, 100), step 0: rank "));
      CHECK(contains(outcome.err,
                     " waits for rank 1, which has left the group; it exited with code "
                     "1; had exited with code 0: rank 1\n"));
    }
    CHECK_EQ(
        launch("--nproc-per-node 3", str(rank_program, " early 1 apart ", with.transport)).code, 0);
  }
}

TEST_CASE("a job has succeeded if all ranks exit with 0, also after an alarm") {
  bool seen = false;  // by the launcher, before the ranks ended
  for (int i = 0; i < 50 && !seen; ++i) {
    const Outcome outcome = launch("--nproc-per-node 2", str(rank_program, " alarm"));
    CHECK_EQ(outcome.code, 0);
    seen =
        contains(outcome.err, "ringlet: its connection is broken; all ranks exited with code 0\n");
  }
  CHECK(seen);
}

#if defined(RINGLET_TESTS_GLOO)
TEST_CASE("a rank that exits with 0 on one node ends its peers on the other") {
  const std::string port = free_port();
  const Words program{rank_program, "early", "1", "after"};
  Background first(node_command(port, "0", {}, program));
  Background second(node_command(port, "1", {}, program));
  CHECK_EQ(first.wait(120), 1);
  CHECK_EQ(second.wait(120), 0);
  CHECK(contains(first.err(), "step 0: rank 0 waits for rank 1, which has left the group"));
}

TEST_CASE("rank 0 keeps the store of several nodes until their ranks have ended") {
  if (!ringlet::is_extended()) return;  // it takes 11 s
  const std::string port = free_port();
  const Words program{rank_program, "early", "0", "apart", "gloo", "11"};
  Background first(node_command(port, "0", {}, program));
  Background second(node_command(port, "1", {}, program));
  CHECK_EQ(second.wait(120), 0);
  CHECK_EQ(first.wait(120), 0);
  CHECK_EQ(second.err(), "");
}
#endif

TEST_CASE("a second signal means at once") {
  Background job(run_command("--nproc-per-node 2 --grace 600",
                             shell("trap '' INT TERM; echo pid $$; while :; do sleep 0.05; done")));
  REQUIRE(job.says("pid ", 2));
  int signals = 0, code = -1;
  for (; signals < 100 && code == -1; ++signals) {  // two signals at the same time count as one
    job.signal(SIGINT);
    code = job.wait(0.3);
  }
  CHECK_EQ(code, 128 + SIGINT);
  CHECK(signals > 1);
  CHECK(all_gone(pids_in(job.out())));
}

TEST_CASE("no orphans: not of a launcher that is killed, and not of a rank") {
  Background killed(run_command("--nproc-per-node 3", str(rank_program, " sleep")));
  REQUIRE(killed.says("pid ", 3));
  killed.signal(SIGKILL);
  CHECK_EQ(killed.wait(), 1000 + SIGKILL);
  CHECK(all_gone(pids_in(killed.out())));

  // And the processes that its ranks started, even in a separate session.
  Background killed_above(
      run_command("--nproc-per-node 2",
                  shell("sleep 600 & echo pid $!; setsid sh -c 'echo pid $$; exec sleep 600' & "
                        "echo pid $$; wait")));
  REQUIRE(killed_above.says("pid ", 6));
  killed_above.signal(SIGKILL);
  CHECK_EQ(killed_above.wait(), 1000 + SIGKILL);
  CHECK(all_gone(pids_in(killed_above.out())));

  // Processes that a rank leaves behind, even in a separate session.
  const TemporaryFolder folder;
  const std::string there = (folder / "$RANK").string();
  const Outcome outcome =
      launch("--nproc-per-node 2",
             shell("sleep 600 & echo pid $!; setsid sh -c \"echo pid \\$\\$; touch " + there +
                   "; exec sleep 600\" & until [ -e " + there + " ]; do sleep 0.02; done"));
  CHECK_EQ(outcome.code, 0);
  CHECK_EQ(pids_in(outcome.out).size(), 4);
  CHECK(all_gone(pids_in(outcome.out)));
}

TEST_CASE("--log-dir keeps what each rank prints, --tee shows some of it") {
  const TemporaryFolder folder;
  const auto log = [&](int attempt, int rank, const char* stream) {
    return ringlet::read_file(folder / str("logs/attempt_", attempt, "/rank_", rank, '/', stream));
  };
  const std::string script =
      "echo out $RANK; echo err $RANK >&2; printf last; "
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK = 0 ] || exit 1";
  const Outcome outcome = launch(str("--nproc-per-node 2 --max-restarts 1 --log-dir ",
                                     (folder / "logs").string(), " --tee 0:1,1:2"),
                                 shell(script));
  CHECK_EQ(outcome.code, 0);
  for (int attempt = 0; attempt < 2; ++attempt)
    CHECK_EQ(log(attempt, 1, "stdout.log") + log(attempt, 1, "stderr.log"), "out 1\nlasterr 1\n");
  CHECK_EQ(log(1, 0, "stdout.log"), "out 0\nlast");
  CHECK(contains(outcome.out, "[0] out 0\n"));
  CHECK(contains(outcome.out, "[0] last\n"));
  CHECK_FALSE(contains(outcome.out, "[1]"));
  CHECK(contains(outcome.err, "[1] err 1\n"));
  CHECK_FALSE(contains(outcome.err, "[0]"));
}

TEST_CASE("many lines of many ranks arrive whole") {
  const Outcome outcome =
      launch("--nproc-per-node 4", shell("i=0; while [ $i -lt 500 ]; do echo 'a line of rank' "
                                         "$RANK 'number' $i; i=$((i+1)); done"));
  CHECK_EQ(outcome.code, 0);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK_EQ(count(outcome.out, str('[', rank, "] a line of rank ", rank, " number ")), 500);
    CHECK(contains(outcome.out, str('[', rank, "] a line of rank ", rank, " number 499\n")));
  }
}

TEST_CASE("two nodes: ranks are numbered by node, and rank 0 keeps the store") {
  const std::string port = free_port();
  const auto node = [&](const std::string& rank) {
    return node_command(port, rank, "--nproc-per-node 2", str(rank_program, " meet"));
  };
  Background second(node("1"));  // if it is first, its ranks wait
  Background first(node("0"));
  CHECK_EQ(first.wait(), 0);
  CHECK_EQ(second.wait(), 0);
  CHECK(contains(first.out(), "[0] rank 0 of 4, local 0 of 2, attempt 0, pid "));
  CHECK(contains(first.out(), "[1] rank 1 of 4, local 1 of 2, attempt 0, pid "));
  CHECK(contains(second.out(), "[2] rank 2 of 4, local 0 of 2, attempt 0, pid "));
  CHECK(contains(second.out(), "[3] rank 3 of 4, local 1 of 2, attempt 0, pid "));
  CHECK_FALSE(contains(first.err() + second.err(), "fail"));
}

TEST_CASE("a node that does not find the store names its place") {
  const std::string port = free_port();
  Background alone(node_command(port, "1", "--nproc-per-node 2", str(rank_program, " group")));
  const std::string note =
      str("rank 2 waits for the store at 127.0.0.2:", port, ": Connection refused\n");
  CHECK(Background::until([&] { return contains(alone.err(), note); }));
  CHECK_FALSE(contains(alone.err(), "rank 3 waits"));  // one rank of each host
  alone.signal(SIGINT);
  CHECK_EQ(alone.wait(), 128 + SIGINT);
}

TEST_CASE("a node names a rank that it waits for") {
  Background alone(
      node_command(free_port(), "0", "--nproc-per-node 2", str(rank_program, " group")));
  const std::string note = " waits for rank 2\n";
  CHECK(Background::until([&] { return contains(alone.err(), note); }));
  CHECK(contains(alone.err(), "[group] world: rank "));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK_EQ(count(alone.err(), note), 1);  // one rank of those that came
  alone.signal(SIGINT);
  CHECK_EQ(alone.wait(), 128 + SIGINT);
}

TEST_CASE("unauthenticated connections leave a launcher descriptors for its ranks") {
  const TemporaryFolder folder;
  const std::string port = free_port(), go = (folder / "go").string();
  Background job(Words{"sh", "-c", "ulimit -n 64; exec \"$0\" \"$@\""} +
                 run_command(str("--nproc-per-node 2 --master-port ", port),
                             shell("until [ -e '" + go + "' ]; do sleep 0.05; done; exec '" +
                                   rank_program + "' group")));
  std::vector<ringlet::comm::Socket> crowd;
  REQUIRE(Background::until([&] {
    std::string why;
    crowd.push_back(
        ringlet::comm::connect_to("127.0.0.1", std::stoi(port),
                                  std::chrono::steady_clock::now() + std::chrono::seconds(5), why));
    return crowd.size() > 100 && crowd.back();
  }));
  ringlet::write_file(go, "");
  CHECK_EQ(job.wait(), 0);
}

TEST_CASE("ranks take the largest values of the options") {
  const Outcome outcome =
      launch("-n 2 --grace 3600 --max-restarts 1000000 --min-ranks 2", str(rank_program, " group"));
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  check_refused("run --nnodes 4096 -n 4096 --node-rank 0 --master-addr 127.0.0.2 x",
                "--nnodes 4096: expected at most 1000000 ranks, found 16777216");
}

TEST_CASE("options of the rendezvous are torchrun's") {
  for (const char* backend : {"c10d", "static"})
    CHECK_EQ(launch(str("--rdzv-backend ", backend,
                        " --rdzv_id 7 --rdzv-endpoint localhost:", free_port()),
                    shell("[ $TORCHELASTIC_RUN_ID = 7 ]"))
                 .code,
             0);
  CHECK_EQ(launch("--rdzv-backend etcd", "true").code, 2);
  // Ranks of one host need no address to find each other.
  CHECK_EQ(launch("-n 2 --master-addr no.such.host.invalid", str(rank_program, " group")).code, 0);
}

TEST_CASE("a rank that fails ends all nodes; its launcher names it and has its exit code") {
  const std::string endpoint = "127.0.0.1:" + free_port();
  const std::map<std::string, std::string> token{{"RINGLET_TOKEN", "a secret of this test"}};
  const auto node = [&](const std::string& rank) {
    return run_command(str("--nnodes 2 --node-rank ", rank, " --rdzv-endpoint ", endpoint),
                       str(rank_program, " exit 1 6"));
  };
  Background first(node("0"), token), second(node("1"), token);
  CHECK_EQ(first.wait(), 1);
  CHECK_EQ(second.wait(), 6);
  CHECK(contains(second.err(), "ringlet: first to fail: rank 1 (pid "));
  CHECK_EQ(count(second.err(), "the last lines of rank 1:\n"), 1);
  // A rank of the other node reports the reason.
  CHECK(contains(first.err(), "ringlet: first to fail: rank 0 (pid "));
  CHECK(contains(first.err(), "rank_program: rank 1 (pid "));
  CHECK(all_gone(pids_in(first.out() + second.out())));
}

TEST_CASE("a node with a killed launcher ends the job on the other") {
  for (const bool kill_the_first : {true, false}) {
    const std::string port = free_port();
    Background first(node_command(port, "0", {}, str(rank_program, " sleep")));
    Background second(node_command(port, "1", {}, str(rank_program, " sleep")));
    REQUIRE(first.says("pid "));
    REQUIRE(second.says("pid "));
    Background& killed = kill_the_first ? first : second;
    Background& left = kill_the_first ? second : first;
    killed.signal(SIGKILL);
    CHECK_EQ(left.wait(), 1);
    CHECK(contains(left.err(), kill_the_first ? " ended unexpectedly\n"  // the store's host
                                              : " ended without leaving the group\n"));
    killed.wait();
    CHECK(all_gone(pids_in(first.out() + second.out())));
  }
}

TEST_CASE("run refuses what makes no sense") {
  check_refused(run({"run"}), "expected a program to run: ringlet run … PROGRAM ARGUMENTS");
  check_refused("run /no/such/program",
                "/no/such/program: cannot start: No such file or directory");
  check_refused("run -n 2 --max-restarts 1 --min-ranks 3 x",
                "--min-ranks 3: expected at most --nproc-per-node 2");
  check_refused("run --nproc-per-node 0 x",
                "--nproc-per-node 0: expected a number up to 4096, cpu, gpu or auto");
  check_refused("run --nproc-per-nod 2 x",
                "unknown option '--nproc-per-nod'; did you mean --nproc-per-node?");
  check_refused("run --nnodes 1:4 x", "--nnodes 1:4: worlds that change size are not supported");
  check_refused("run --nnodes 2 x",
                "--nnodes 2: expected --master-addr or --rdzv-endpoint, the address of node 0");
  for (const std::string place : {"--master-addr 127.0.0.1", "--rdzv-endpoint 127.0.0.1:29500"})
    check_refused("run --nnodes 2 " + place + " x",
                  "--nnodes 2: expected --node-rank, from 0 to 1");
  check_refused("run --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --max-restarts 1 x",
                "--max-restarts 1: restarts are for one host, not --nnodes 2");
  check_refused("run --node-rank 1 x", "--node-rank 1: expected less than --nnodes 1");
  check_refused("run --standalone --nnodes 2 x", "--standalone is for one node, not --nnodes 2");
  check_refused("run --tee 3 x", "--tee requires --log-dir");
  check_refused("run --min-ranks x y",
                "--min-ranks: expected a whole number from 1 to 4096, found 'x'");
  check_refused("run --min-ranks 1 x", "--min-ranks requires --max-restarts");
  check_refused("run --log-dir logs --tee 5 x",
                "--tee 5: expected 0 to 3 (1 standard output, 2 standard error, 3 both), or "
                "LOCAL_RANK:0-3,…");
  check_refused("run --rdzv-endpoint host:port x", "--rdzv-endpoint host:port: expected HOST:PORT");
}

TEST_SUITE_END();
