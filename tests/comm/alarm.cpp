#include "ringlet/comm/alarm.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

TEST_SUITE_BEGIN("host");

using namespace ringlet::comm;

TEST_CASE("the first cause counts, from any rank") {
  const auto alarm = make_alarm();
  CHECK(!alarm->raised());
  CHECK(alarm->cause().empty());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&, i] { alarm->raise(std::to_string(i)); });
  for (std::thread& thread : threads) thread.join();
  CHECK(alarm->raised());
  const std::string cause = alarm->cause();
  CHECK(cause.size() == 1);
  alarm->raise("later");
  CHECK(alarm->cause() == cause);
}

TEST_CASE("a forked alarm is heard by parent and child; long causes are cut") {
  const auto alarm = make_alarm();
  const pid_t child = fork();
  if (child == 0) {
    alarm->raise("from the child" + std::string(5000, '.'));
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(alarm->raised());
  CHECK(alarm->cause().starts_with("from the child"));
  CHECK(alarm->cause().size() == 4000);
}

TEST_SUITE_END();
