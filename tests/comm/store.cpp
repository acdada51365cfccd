#include "ringlet/comm/store.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "ringlet/core/error.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;

TEST_CASE("memory store: get waits for set, and names the key that is never set") {
  const auto store = make_memory_store();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    store->set("key", std::string("a\0b", 3));
  });
  CHECK(store->get("key", std::chrono::seconds(10)) == std::string("a\0b", 3));
  later.join();
  store->set("key", "again");
  CHECK(store->get("key", Timeout(0)) == "again");
  CHECK_THROWS_WITH_AS(store->get("other", Timeout(10)), "[store] nobody set 'other' within 0.01 s",
                       Error);
}

TEST_CASE("memory store: counters start at 0 and lose nothing") {
  const auto store = make_memory_store();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) store->add("n", 1);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(store->add("n", -400) == 0);
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

TEST_SUITE_END();
