#include "ringlet/cuda/launch_gate.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "ringlet/core/base/error.h"

namespace ringlet::cuda {
namespace {

using std::chrono::milliseconds;
constexpr double kLong = 60;  // seconds

/// `work` on another thread.
template <class Work>
std::future<void> beside(const Work& work) {
  return std::async(std::launch::async, work);
}
void call() { const LaunchGate::Call call; }

using Round = std::shared_ptr<LaunchRound>;
Round make_round(int launches, double seconds = kLong) {
  return std::make_shared<LaunchRound>(launches, seconds);
}
void launch(const std::vector<Round>& rounds) { const LaunchGate::Launch launch(rounds); }

bool ends(const std::future<void>& work) {
  return work.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
}
bool waits(const std::future<void>& work) {
  return work.wait_for(milliseconds(30)) == std::future_status::timeout;
}

TEST_CASE("a call of the driver waits from a round's first launch to its last") {
  const Round round = make_round(3);
  CHECK(ends(beside(call)));
  for (int again = 0; again < 2; ++again) {
    launch({round});
    const auto waiting = beside(call);
    CHECK(waits(waiting));
    launch({round});
    CHECK(waits(waiting));
    launch({round});
    CHECK(ends(waiting));
  }
}

TEST_CASE("a round waits for calls in progress, and its launches with it") {
  const Round round = make_round(2);
  std::optional<LaunchGate::Call> in_progress(std::in_place);
  const auto first = beside([&] { launch({round}); }), second = beside([&] { launch({round}); });
  CHECK(waits(first));
  call();  // within that of its own thread
  CHECK(waits(second));
  const auto later = beside(call);
  CHECK(waits(later));  // or calls could put a launch off again and again
  in_progress.reset();
  CHECK(ends(first));
  CHECK(ends(second));
  CHECK(ends(later));
}

TEST_CASE("rounds follow each other, so that all devices launch them in one order") {
  const Round round = make_round(2), other = make_round(2);
  launch({round});
  const auto waiting = beside([&] { launch({other}); });
  CHECK(waits(waiting));
  launch({round});
  CHECK(ends(waiting));
  launch({other});
  CHECK(ends(beside(call)));
}

TEST_CASE("a graph's launch is one of several rounds, within which its thread may call") {
  const Round round = make_round(2), other = make_round(2);
  const auto both = [&] {
    const std::vector<Round> rounds{round, other};
    const LaunchGate::Launch launch(rounds);
    call();
  };
  CHECK(ends(beside(both)));
  const auto waiting = beside(call);
  CHECK(waits(waiting));
  CHECK(ends(beside(both)));
  CHECK(ends(waiting));
}

TEST_CASE("a launch of several rounds joins one that is open, which may miss it alone") {
  const Round first = make_round(2), last = make_round(2);
  launch({last});
  const auto waiting = beside([&] { launch({first}); });
  CHECK(waits(waiting));
  CHECK(ends(beside([&] { launch({first, last}); })));
  CHECK(ends(waiting));
  CHECK(ends(beside(call)));

  const Round rows[] = {make_round(2), make_round(2)}, columns[] = {make_round(2), make_round(2)};
  for (const Round& row : rows)
    for (const Round& column : columns) CHECK(ends(beside([&] { launch({row, column}); })));
  CHECK(ends(beside(call)));
}

TEST_CASE("a deadline ends a wait for launches that do not come, and a wait for calls") {
  const Round round = make_round(2, 0.05), other = make_round(2);
  launch({round});
  CHECK(ends(beside(call)));
  CHECK(ends(beside([&] { launch({other}); })));
  launch({other});
  CHECK(ends(beside(call)));  // the earlier round does not count again
  const LaunchGate::Call in_progress;
  const Round third = make_round(2, 0.05);
  CHECK_THROWS_WITH_AS(launch({third}),
                       "[all_reduce] a launch on several GPUs waited 0.05 s for a call of the "
                       "driver by another thread",
                       Error);
}

TEST_CASE("a rank that fails holds up no call") {
  Round round = make_round(2);
  launch({round});
  const auto waiting = beside(call);
  CHECK(waits(waiting));
  round->abandon();
  CHECK(ends(waiting));
  launch({round});
  CHECK(ends(beside(call)));
  round = make_round(2);
  launch({round});
  round.reset();
  CHECK(ends(beside(call)));

  struct Frees {
    ~Frees() { call(); }
  };
  const Round open = make_round(2);
  launch({open});
  CHECK(ends(beside([] {
    try {
      const Frees while_unwinding;
      fail("an error of this rank");
    } catch (const Error&) {
    }
  })));
}

}  // namespace
}  // namespace ringlet::cuda
