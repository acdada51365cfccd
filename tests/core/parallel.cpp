#include "ringlet/core/threads/parallel.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../device.h"
#include "child.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/processors.h"

using namespace ringlet;

namespace {

/// The number of visits of a parallel_for over [0, n) at each index.
std::vector<int> visits(Device device, std::int64_t n, std::int64_t grain) {
  std::vector<int> count(static_cast<std::size_t>(n));
  parallel_for(device, n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; ++begin) ++count[static_cast<std::size_t>(begin)];
  });
  return count;
}

std::vector<int> once(std::int64_t n) { return std::vector<int>(static_cast<std::size_t>(n), 1); }

const Device first{};
const Device second{DeviceType::cpu, 1};

}  // namespace

TEST_CASE_FIXTURE(OnCpu, "every index is visited once, whatever the size and the grain") {
  for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 1000})
    for (const std::int64_t grain : {1, 3, 8, 5000}) CHECK(visits(first, n, grain) == once(n));
}

TEST_CASE_FIXTURE(OnCpu, "a call inside a body runs in line") {
  std::atomic<std::int64_t> sum{0};
  parallel_for(first, 10, 1, [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; ++begin) {
      const auto inner = visits(begin % 2 ? first : second, begin, 1);
      sum += std::accumulate(inner.begin(), inner.end(), std::int64_t{0});
    }
  });
  CHECK(sum == 45);
}

TEST_CASE_FIXTURE(OnCpu, "the first exception comes back to the caller, and the pool goes on") {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto throws = [](std::int64_t begin, std::int64_t) { fail("piece ", begin); };
    CHECK_THROWS_AS(parallel_for(first, 100, 1, throws), Error);
    CHECK(visits(first, 100, 1) == once(100));
  }
}

TEST_CASE_FIXTURE(OnCpu, "threads share a device, and devices do not wait for each other") {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (const Device device : {first, first, second})
    callers.emplace_back([&wrong, device] {
      for (int repeat = 0; repeat < 200; ++repeat)
        if (visits(device, 64 + repeat, 1) != once(64 + repeat)) ++wrong;
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE_FIXTURE(OnCpu, "a device's threads keep to its processors, wherever others run") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof(all), &all) == 0);
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all)) processors.push_back(cpu);
  const Device device{DeviceType::cpu, 3};  // used by no other test
  // Counts over the threads that take part: limited to one processor that is `mine`, or not.
  const auto threads_on = [&](int mine) {
    std::atomic<int> pinned{0}, roaming{0};
    std::atomic<std::uint64_t> slow{0};
    std::atomic<bool> caller_has_a_part{false};
    const std::thread::id caller = std::this_thread::get_id();
    parallel_for(device, 64, 1, [&](std::int64_t, std::int64_t) {
      if (std::this_thread::get_id() == caller) caller_has_a_part = true;
      while (!caller_has_a_part) std::this_thread::yield();
      cpu_set_t set;
      sched_getaffinity(0, sizeof(set), &set);
      const bool here = CPU_COUNT(&set) == 1 && CPU_ISSET(mine, &set);
      (here ? pinned : roaming) += 1;
      for (int i = 0; i < 100'000; ++i) slow += 1;  // so that each thread gets a part
    });
    return std::pair(pinned.load(), roaming.load());
  };
  std::thread([&] {  // the thread's pinning ends with it
    set_processors(device, {processors.back()});
    keep_to(device);
    CHECK(threads_on(processors.back()).second == 0);
    set_processors(device, {processors.front()});  // its threads are already running
    if (processors.size() > 1) CHECK(threads_on(processors.back()).first > 0);  // the caller
    keep_to(device);
    CHECK(threads_on(processors.front()).second == 0);
    CHECK_THROWS_WITH_AS(set_processors(device, {}), "[threads] cpu:3 has no processors", Error);
  })
      .join();
  cpu_set_t still;
  REQUIRE(sched_getaffinity(0, sizeof(still), &still) == 0);
  CHECK(CPU_EQUAL(&all, &still));
}

TEST_CASE_FIXTURE(OnCpu, "a forked child has threads of its own") {
  static_cast<void>(visits(first, 100, 1));  // starts the parent's pool
  CHECK(exit_code_of([] { return visits(first, 100, 1) == once(100) ? 0 : 1; }) == 0);
}

TEST_CASE_FIXTURE(OnCpu, "threads that do not start are an error that says how many did") {
  const int code = exit_code_of([] {
    // The limit does not bind root, and other processes of a user count. So root changes to a user
    // without others: this process and two threads are allowed.
    const bool alone = geteuid() == 0;
    if (alone && setuid((1 << 24) + static_cast<uid_t>(getpid())) != 0) return 77;
    const rlimit few{alone ? 3u : 1u, alone ? 3u : 1u};
    if (setrlimit(RLIMIT_NPROC, &few) != 0) return 77;
    set_threads_per_device(8);
    try {
      static_cast<void>(visits(first, 100, 1));
      return 1;
    } catch (const Error& error) {
      const std::string text = error.what();
      if (!text.starts_with(alone ? "[threads] only 3 of 8 start: "
                                  : "[threads] only 1 of 8 start"))
        return 2;
    }
    // The threads that did start have ended, so fewer can start now.
    if (alone) set_threads_per_device(3);
    return !alone || visits(first, 100, 1) == once(100) ? 0 : 3;
  });
  if (code == 77) MESSAGE("skipped: needs a limit of processes");
  CHECK((code == 0 || code == 77));
}
