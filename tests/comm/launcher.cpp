// The launcher's parts; tests/cli/run.cpp tests the whole.
#include "ringlet/comm/launcher/launcher.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "ringlet/comm/host.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/comm/launcher/local_rank.h"
#include "ringlet/comm/launcher/process.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/tests/files.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

/// The process's exit code, within a minute.
std::optional<int> wait_for(Process& process) {
  for (int i = 0; i < 60'000; ++i) {
    if (const auto code = process.exit_code()) return code;
    std::this_thread::sleep_for(1ms);
  }
  return std::nullopt;
}

std::string everything(int fd) {
  RankStream stream("", nullptr, "", std::cerr);
  while (stream.pump(fd)) std::this_thread::sleep_for(1ms);
  stream.finish();
  std::string text;
  for (const std::string& line : stream.tail()) text += line + '\n';
  return text;
}

}  // namespace

TEST_CASE("devices get cores before second threads of cores, and no core is in two") {
  using Parts = std::vector<std::vector<int>>;
  // Two sockets of two cores of two threads, with the usual numbering: processor n + 4 is the
  // second thread of the core of n.
  std::vector<Processor> all;
  for (int thread = 0; thread < 2; ++thread)
    for (int core = 0; core < 4; ++core) all.push_back({core / 2, core % 2, 4 * thread + core});
  CHECK(processors_of_devices(all, 1, 1) == Parts{{0}});
  CHECK(processors_of_devices(all, 2, 1) == Parts{{0}, {1}});
  CHECK(processors_of_devices(all, 2, 2) == Parts{{0, 1}, {2, 3}});
  CHECK(processors_of_devices(all, 4, 2) == Parts{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(processors_of_devices(all, 1, 5) == Parts{{0, 4, 1, 2, 3}});
  CHECK(processors_of_devices(all, 3, 3) == Parts{});
}

TEST_CASE("processors are shared out, each to one rank") {
  const int all = static_cast<int>(affinity().size());
  for (int n = 1; n <= all; ++n) {
    const auto shares = share_cores(n);
    REQUIRE_EQ(shares.size(), static_cast<std::size_t>(n));
    std::set<int> seen;
    std::size_t dealt = 0;
    for (const auto& share : shares) {
      CHECK(share.size() >= static_cast<std::size_t>(all / n));
      dealt += share.size();
      seen.insert(share.begin(), share.end());
    }
    CHECK_EQ(dealt, static_cast<std::size_t>(all));
    CHECK_EQ(seen.size(), dealt);
  }
  for (const auto& share : share_cores(all + 1)) CHECK(share.empty());
}

TEST_CASE("a process has its environment, its processors and its exit code") {
  const int processor = share_cores(1)[0].back();
  Process process({.command = {"sh", "-c", "echo $COLOUR; echo error >&2; nproc; exit 5"},
                   .environment = {{"COLOUR", "green"}},
                   .processors = {processor}});
  CHECK_EQ(wait_for(process), 5);
  CHECK_EQ(process.how_it_ended(), "exited with code 5");
  CHECK_EQ(everything(process.out().fd()), "green\n1\n");
  CHECK_EQ(everything(process.err().fd()), "error\n");
}

TEST_CASE("a signal reaches the whole group, and its end is told") {
  Process process({.command = {"sh", "-c", "sleep 600 & echo pid $!; wait"}});
  std::string pid;
  for (int i = 0; i < 60'000 && pid.size() < 5; ++i) {
    char text[64];
    const ssize_t n = read(process.out().fd(), text, sizeof(text));
    if (n > 0) pid.append(text, static_cast<std::size_t>(n));
    std::this_thread::sleep_for(1ms);
  }
  process.signal(SIGTERM);
  CHECK_EQ(wait_for(process), 128 + SIGTERM);
  CHECK_EQ(process.how_it_ended(), "was killed by SIGTERM");
  CHECK_FALSE(process.exit_code() == std::nullopt);  // a second call is allowed
}

TEST_CASE("all children of the process are killed") {
  const pid_t child = fork();
  if (child == 0)
    while (true) pause();
  kill_children();
  CHECK_EQ(kill(child, 0), -1);
}

TEST_CASE("a program that is not there is named") {
  CHECK_THROWS_WITH_AS(Process({.command = {"/no/such"}}),
                       "/no/such: cannot start: No such file or directory", InputError);
  const TemporaryFolder folder;
  write_file(folder / "text", "no program");
  const std::string path = (folder / "text").string();
  CHECK_THROWS_WITH_AS(Process({.command = {path}}),
                       str(path, ": cannot start: Permission denied").c_str(), InputError);
}

TEST_CASE("a stream goes to the screen in lines and to its file as it is") {
  const TemporaryFolder folder;
  int ends[2];
  REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
  std::ostringstream screen;
  std::ostringstream warnings;
  RankStream stream("[3] ", &screen, folder / "a/b/stdout.log", warnings);
  const auto say = [&](const std::string& text) {
    REQUIRE(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    CHECK(stream.pump(ends[0]));
  };
  say("one\ntw");
  CHECK_EQ(screen.str(), "[3] one\n");
  say("o\n\nthr");
  CHECK_EQ(screen.str(), "[3] one\n[3] two\n[3] \n");
  close(ends[1]);
  CHECK_FALSE(stream.pump(ends[0]));
  stream.finish();
  close(ends[0]);
  CHECK_EQ(screen.str(), "[3] one\n[3] two\n[3] \n[3] thr\n");
  CHECK_EQ(read_file(folder / "a/b/stdout.log"), "one\ntwo\n\nthr");
  CHECK_EQ(stream.tail().size(), 4);
  CHECK_EQ(warnings.str(), "");
}

TEST_SUITE_END();
