// The TCP store's alarm for ranks that are processes and are killed.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "tcp_job.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

/// A rank as a process, with a separate store.
pid_t fork_rank(const TcpStoreOptions& options, const std::function<void(TcpStore&)>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    const auto store = join_tcp_store(options);
    body(*store);
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

/// A server as a process; returns its port.
pid_t fork_server(const Token& token, int& port) {
  int to_parent[2];
  REQUIRE(pipe(to_parent) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto server = serve_tcp_store({.token = token});
    const int mine = server->port();
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

TEST_CASE("a rank that is killed raises the alarm on all its peers at once") {
  const Job job;
  const auto first = join_tcp_store(job.options("rank 0"));
  const auto second = join_tcp_store(job.options("rank 1"));
  const pid_t child = fork_rank(job.options("rank 2"), [](TcpStore& store) {
    store.set("rank 2 is here", "");
    std::this_thread::sleep_for(60s);
  });
  first->get("rank 2 is here", 10s);
  CHECK_FALSE(first->raised());

  // It ends a wait in progress.
  std::optional<std::string> ended;
  std::thread waiting([&] { ended = message_of([&] { second->get("never", 60s); }); });
  std::this_thread::sleep_for(20ms);
  kill(child, SIGKILL);
  CHECK(raised_within(*first));
  CHECK(raised_within(*second));
  reap(child);
  waiting.join();

  const std::string cause = first->cause();
  CHECK_EQ(cause.find(str("rank 2 (pid ", child, ", host ")), 0);
  CHECK(cause.find(") ended without leaving the group") != std::string::npos);
  CHECK_EQ(second->cause(), cause);
  CHECK_EQ(ended.value(), cause);
  CHECK_EQ(cause, first->culprit() + " ended without leaving the group");

  // A later client receives it, and no rank waits for peers as if nothing had happened.
  const auto third = join_tcp_store(job.options("rank 3"));
  CHECK(raised_within(*third));
  CHECK_EQ(third->cause(), cause);
  CHECK_THROWS_WITH_AS(first->get("rank 2 is here", 1s), cause.c_str(), Error);
}

namespace {

/// Threads that set more than the sockets' buffers hold.
struct Flood {
  static constexpr int kSets = 24;  // of 1 MiB: Linux buffers 4 MiB here and 6 there

  explicit Flood(TcpStore& store) {
    for (int i = 0; i < kSets; ++i)
      threads.emplace_back([&store, this, i] {
        const std::string error =
            message_of([&] { store.set(std::to_string(i), std::string(1 << 20, 'v')); });
        const std::lock_guard lock(mutex);
        errors.insert(error);
      });
    std::this_thread::sleep_for(300ms);  // now one waits to send, and the others queue after it
  }
  /// Waits for all of them; each ends with an error.
  const std::set<std::string>& join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    return errors;
  }
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::set<std::string> errors;
};

}  // namespace

TEST_CASE("a server that reads nothing delays no rank beyond its deadline") {
  const Job job;
  TcpStoreOptions options = job.options("rank 1");
  const pid_t child = fork_server(job.token, options.port);
  options.timeout = 2s;
  const std::string server = str("the store at 127.0.0.1:", options.port);
  {
    const auto client = join_tcp_store(options);
    stop(child);
    Flood flood(*client);
    // A client with a shorter deadline than those before it.
    CHECK_EQ(message_of([&] { client->get("key", 200ms); }),
             str("[store] ", server, " did not answer within 0.2 s"));
    // The last message was sent in part: the connection is unusable after it.
    for (const std::string& error : flood.join()) {
      CAPTURE(error);
      CHECK((error == str("[store] ", server, " did not answer within 2 s") ||
             error == server + " takes no messages"));
    }
    CHECK_EQ(client->cause(), server + " takes no messages");
  }
  kill(child, SIGKILL);
  reap(child);
}

TEST_CASE("a rank that says goodbye raises nothing") {
  const Job job;
  auto first = join_tcp_store(job.options("rank 0"));
  const pid_t child =
      fork_rank(job.options("rank 1"), [](TcpStore& store) { store.set("key", "value"); });
  CHECK_EQ(first->get("key", 10s), "value");
  reap(child);
  CHECK_FALSE(raised_within(*first, 100ms));
  CHECK_EQ(first->add("counter", 1), 1);
  CHECK_FALSE(job.server->wait_for_goodbyes(10ms));
  first.reset();
  CHECK(job.server->wait_for_goodbyes(10s));
}

TEST_CASE("a server that is killed raises the alarm, one that closes does not") {
  Job job;
  TcpStoreOptions options = job.options("rank 1");
  const pid_t child = fork_server(job.token, options.port);
  const auto client = join_tcp_store(options);
  kill(child, SIGKILL);
  CHECK(raised_within(*client));
  reap(child);
  CHECK_EQ(client->cause(), str("the store at 127.0.0.1:", options.port, " ended unexpectedly"));

  const auto other = join_tcp_store(job.options("rank 1"));
  job.server.reset();
  CHECK_FALSE(raised_within(*other, 100ms));
  CHECK_THROWS_AS(other->set("key", "value"), Error);
}

TEST_SUITE_END();
