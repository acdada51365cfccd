#include "ringlet/comm/store.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/core/base/error.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;
using namespace std::chrono_literals;

namespace {

/// Three ranks, each with a separate handle to one store.
struct World {
  std::unique_ptr<TcpStoreServer> server;
  std::vector<std::shared_ptr<Store>> ranks;
};

World world_over(const std::string& kind) {
  World world;
  const Token token = Token::random();
  if (kind == "tcp") world.server = serve_tcp_store({.token = token});
  const auto memory = make_memory_store();
  for (int rank = 0; rank < 3; ++rank) {
    if (kind == "memory") world.ranks.push_back(memory);
    if (kind == "tcp")
      world.ranks.push_back(join_tcp_store(
          {.port = world.server->port(), .token = token, .name = str("rank ", rank)}));
  }
  return world;
}

void on_every_rank(World& world, const std::function<void(int, Store&)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] { body(rank, *world.ranks[static_cast<std::size_t>(rank)]); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("all stores keep what was set, wait for what was not, and count") {
  for (const std::string kind : {"memory", "tcp"}) {
    CAPTURE(kind);
    World world = world_over(kind);
    Store& first = *world.ranks[0];
    Store& second = *world.ranks[1];

    first.set("key", "value");
    CHECK_EQ(second.get("key", 60s), "value");
    first.set("key", "another");
    CHECK_EQ(second.get("key", 60s), "another");
    const std::string odd("a/../b%\0\xff c", 11);
    first.set(odd, odd);
    first.set("", "");
    CHECK_EQ(second.get(odd, 60s), odd);
    CHECK_EQ(second.get("", 60s), "");
    const std::string many(4000, '7');  // a sub-group of many ranks names them all
    for (const char* end : {"1", "2"}) first.set(many + end, end);
    for (const char* end : {"1", "2"}) CHECK_EQ(second.get(many + end, 60s), end);
    CHECK_EQ(first.add(many + "1", 1), 1);
    CHECK_EQ(second.add(many + "2", 1), 1);
    const std::string large(1 << 20, 'x');
    first.set("large", large);
    CHECK(second.get("large", 60s) == large);

    CHECK_THROWS_WITH_AS(second.get("absent", 30ms), "[store] nobody set 'absent' within 0.03 s",
                         Error);
    CHECK_EQ(first.add("counter", 5), 5);
    CHECK_EQ(second.add("counter", -7), -2);
    CHECK_EQ(first.add("counter", 0), -2);
    // A counter cannot be read as a value.
    CHECK_THROWS_AS(second.get("counter", 1ms), Error);

    // Each waits for the next one's key, and all count concurrently.
    std::atomic<int> wrong{0};
    std::atomic<std::int64_t> largest{0};
    on_every_rank(world, [&](int rank, Store& store) {
      if (rank == 0) std::this_thread::sleep_for(30ms);
      store.set(str("from/", rank), str("rank ", rank));
      const int next = (rank + 1) % 3;
      if (store.get(str("from/", next), 10s) != str("rank ", next)) ++wrong;
      for (int i = 0; i < 100; ++i) {
        const std::int64_t now = store.add("all", 1);
        for (std::int64_t seen = largest; seen < now && !largest.compare_exchange_weak(seen, now);)
          continue;
      }
    });
    CHECK_EQ(wrong, 0);
    CHECK_EQ(largest, 300);
  }
}

TEST_CASE("memory store: what one process sets, adds or had set before it was killed, all see") {
  const auto store = make_memory_store();
  store->set("parent", "early");
  for (int child = 0; child < 3; ++child)
    if (fork() == 0) {
      const bool heard = store->get("parent", std::chrono::seconds(10)) == "early";
      for (int i = 0; i < 100; ++i) store->add("n", 1);
      store->set(std::to_string(child), heard ? std::string("a\0b", 3) : "deaf");
      kill(getpid(), SIGKILL);
    }
  for (int child = 0; child < 3; ++child) {
    CHECK(store->get(std::to_string(child), std::chrono::seconds(10)) == std::string("a\0b", 3));
    CHECK(wait(nullptr) > 0);
  }
  CHECK(store->add("n", -300) == 0);
  store->set("n", "a value beside the counter of this name");
  CHECK(store->add("n", 1) == 1);
  CHECK_THROWS_WITH_AS(store->get("other", Timeout(10)), "[store] nobody set 'other' within 0.01 s",
                       Error);
  CHECK_THROWS_WITH_AS(store->set("big", std::string(std::size_t{65} << 20, '.')),
                       "[store] no room for 'big'", Error);
}

TEST_CASE(
    "memory store: a rank that is stopped while it uses the store keeps no other one waiting") {
  const auto store = make_memory_store();
  store->set("large", std::string(std::size_t{8} << 20, 'x'));
  const pid_t child = fork();
  if (child == 0)
    for (::alarm(60);;) store->get("large", 1s);
  std::string message;
  // Most of the child's time is spent in the store.
  for (int attempt = 0; attempt < 100 && message.empty(); ++attempt) {
    std::this_thread::sleep_for(1ms * attempt);
    kill(child, SIGSTOP);
    CHECK(waitpid(child, nullptr, WUNTRACED) == child);
    try {
      store->add("n", 1);
    } catch (const Error& error) {
      message = error.what();
    }
    kill(child, SIGCONT);
  }
  CHECK(message == "[store] in use by another rank for 5 s: that rank is stopped");
  kill(child, SIGSTOP);
  store->raise("over");  // needs no lock
  CHECK(store->cause() == "over");
  kill(child, SIGKILL);
  CHECK(waitpid(child, nullptr, 0) == child);
  CHECK(store->get("large", 60s).size() == std::size_t{8} << 20);
}

TEST_CASE("two processes of one rank are refused, as on hosts with unequal numbers of ranks") {
  for (const std::string kind : {"memory", "tcp"}) {
    World world = world_over(kind);
    for (int rank : {0, 1}) record_joined(*world.ranks[0], rank);
    CHECK(has_joined(*world.ranks[1], 1));
    CHECK_THROWS_AS(record_joined(*world.ranks[1], 1), InputError);
  }
}

TEST_CASE("memory store: any number of keys, the latest value of each") {
  const auto store = make_memory_store();
  for (const int round : {0, 1})
    for (int i = 0; i < 20000; ++i) store->set(str("key ", i), str(round, "-", i));
  for (int i = 0; i < 20000; ++i) REQUIRE(store->get(str("key ", i), 60s) == str("1-", i));
}

TEST_CASE("memory store: the first cause of an alarm counts, from any rank") {
  const auto store = make_memory_store();
  CHECK(!store->raised());
  CHECK(store->cause().empty());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&, i] { store->raise(std::to_string(i)); });
  for (std::thread& thread : threads) thread.join();
  CHECK(store->raised());
  const std::string cause = store->cause();
  CHECK(cause.size() == 1);
  store->raise("later");
  CHECK(store->cause() == cause);
}

TEST_CASE("memory store: an alarm is heard by parent and child; long causes are cut") {
  const auto store = make_memory_store();
  const pid_t child = fork();
  if (child == 0) {
    store->raise("from the child" + std::string(5000, '.'));
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(store->raised());
  CHECK(store->cause().starts_with("from the child"));
  CHECK(store->cause().size() == 4000);
}

TEST_SUITE_END();
