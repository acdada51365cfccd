// The TCP store's alarm where ranks are processes that are killed.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "tcp_job.h"

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

/// A rank as a process, with a store of its own.
pid_t fork_rank(const TcpStoreOptions& options, const std::function<void(TcpStore&)>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    TcpStore store(options);
    body(store);
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

/// A server as a process; its port.
pid_t fork_server(const Token& token, int& port) {
  int to_parent[2];
  REQUIRE(pipe(to_parent) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const TcpStoreServer server({.token = token});
    const int mine = server.port();
    if (write(to_parent[1], &mine, sizeof(mine)) < 0) _exit(1);
    std::this_thread::sleep_for(60s);
    _exit(0);
  }
  REQUIRE(read(to_parent[0], &port, sizeof(port)) == sizeof(port));
  close(to_parent[0]);
  close(to_parent[1]);
  return child;
}

/// Returns once it has stopped.
void stop(pid_t child) {
  kill(child, SIGSTOP);
  waitpid(child, nullptr, WUNTRACED);
}

void reap(pid_t child) { waitpid(child, nullptr, 0); }

}  // namespace

TEST_CASE("a rank that is killed raises the alarm on all others at once") {
  const Job job;
  TcpStore first(job.options("rank 0"));
  TcpStore second(job.options("rank 1"));
  const pid_t child = fork_rank(job.options("rank 2"), [](TcpStore& store) {
    store.set("rank 2 is here", "");
    std::this_thread::sleep_for(60s);
  });
  first.get("rank 2 is here", 10s);
  CHECK_FALSE(first.raised());

  // A wait under way is ended by it.
  std::optional<std::string> ended;
  std::thread waiting([&] { ended = error_of([&] { second.get("never", 60s); }); });
  std::this_thread::sleep_for(20ms);
  kill(child, SIGKILL);
  CHECK(time_to_alarm(first) < 1s);
  CHECK(time_to_alarm(second) < 1s);
  reap(child);
  waiting.join();

  const std::string cause = first.cause();
  CHECK_EQ(cause.find(concat("rank 2 (pid ", child, ", host ")), 0);
  CHECK(cause.find(") ended without saying goodbye") != std::string::npos);
  CHECK_EQ(second.cause(), cause);
  CHECK_EQ(ended.value(), cause);
  CHECK_EQ(cause, first.culprit() + " ended without saying goodbye");

  // Who comes later hears of it, and nobody waits for others as if nothing had happened.
  TcpStore third(job.options("rank 3"));
  time_to_alarm(third);
  CHECK_EQ(third.cause(), cause);
  CHECK_THROWS_WITH_AS(first.get("rank 2 is here", 1s), cause.c_str(), Error);
}

TEST_CASE("a server that has stopped is silent, one that nobody asks anything is not") {
  const Job job;
  TcpStoreOptions options = job.options("rank 1");
  const pid_t child = fork_server(job.token, options.port);
  options.silence = 500ms;
  TcpStore client(options);
  CHECK(time_to_alarm(client, 2s) >= 2s);
  stop(child);
  // What waits for an answer is told as soon as the silence is noticed, not at its own deadline.
  const std::string error = error_of([&] { client.set("key", "value"); });
  CHECK_EQ(error, concat("the store at 127.0.0.1:", options.port, ": no answer for 0.5 s"));
  CHECK_EQ(client.cause(), error);
  CHECK_EQ(error_of([&] { client.add("counter", 1); }), error);
  kill(child, SIGKILL);
  reap(child);
}

TEST_CASE("a rank that has stopped is silent, if it promised not to be") {
  const Job job;
  TcpStore first(job.options("rank 0"));
  TcpStoreOptions options = job.options("rank 1");
  options.silence = 500ms;
  const pid_t child = fork_rank(options, [](TcpStore&) { std::this_thread::sleep_for(60s); });
  CHECK(time_to_alarm(first, 2s) >= 2s);
  stop(child);
  CHECK(time_to_alarm(first) < 5s);
  CHECK_EQ(first.cause(), first.culprit() + " has been silent for 0.5 s");
  CHECK(first.culprit().starts_with(concat("rank 1 (pid ", child, ", host ")));
  kill(child, SIGKILL);
  reap(child);
}

TEST_CASE("a rank that says goodbye raises nothing") {
  const Job job;
  TcpStore first(job.options("rank 0"));
  const pid_t child =
      fork_rank(job.options("rank 1"), [](TcpStore& store) { store.set("key", "value"); });
  CHECK_EQ(first.get("key", 10s), "value");
  reap(child);
  CHECK(job.server->wait_for_goodbyes(10s, 1));
  CHECK(time_to_alarm(first, 100ms) >= 100ms);
  CHECK_EQ(first.add("counter", 1), 1);
}

TEST_CASE("a server that is killed raises the alarm, one that closes does not") {
  Job job;
  TcpStoreOptions options = job.options("rank 1");
  const pid_t child = fork_server(job.token, options.port);
  TcpStore client(options);
  kill(child, SIGKILL);
  CHECK(time_to_alarm(client) < 1s);
  reap(child);
  CHECK_EQ(client.cause(),
           concat("the store at 127.0.0.1:", options.port, " ended without saying goodbye"));

  TcpStore other(job.options("rank 1"));
  job.server.reset();
  CHECK(time_to_alarm(other, 100ms) >= 100ms);
  CHECK_THROWS_AS(other.set("key", "value"), Error);
}
