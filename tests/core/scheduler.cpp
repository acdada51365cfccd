// The scheduler of emulated streams (tests/streams).
#include "../streams/scheduler.h"

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <string>
#include <utility>

TEST_SUITE_BEGIN("host");

namespace ringlet::streams {
namespace {

/// Two streams; their work appends letters to `order`.
struct Letters {
  explicit Letters(std::uint64_t seed = 1) : scheduler(seed) {}

  Work letter(char which) {
    return {[this, which](Stream&) -> Step {
              order += which;
              return nullptr;
            },
            true};
  }
  std::string run() {
    Scheduler::Lock lock(scheduler.mutex());
    scheduler.run_until(lock, [&] { return scheduler.is_idle(); });
    return std::exchange(order, "");
  }

  Scheduler scheduler;
  Stream a, b;
  std::string order;
};

/// Work of two streams, of which `b` waits for the third letter of `a`.
std::string order_of(std::uint64_t seed) {
  Letters on(seed);
  Point third;
  for (const char which : {'1', '2', '3', '4', '5', '6'}) {
    on.scheduler.enqueue(on.a, on.letter(which));
    if (which == '3') third = on.a.last;
  }
  for (const char which : {'A', 'B'}) on.scheduler.enqueue(on.b, on.letter(which));
  for (const char which : {'C', 'D'}) on.scheduler.enqueue(on.b, on.letter(which), {third});
  return on.run();
}

}  // namespace

TEST_CASE("a seed chooses an order, always the same, of those that streams and points allow") {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string order = order_of(seed);
    CHECK(order == order_of(seed));
    CHECK(order.size() == 10);
    CHECK(order.find('C') > order.find('3'));
    for (const std::string own : {"123456", "ABCD"}) {
      std::string kept;
      for (const char each : order)
        if (own.find(each) != own.npos) kept += each;
      CHECK(kept == own);
    }
    orders.insert(order);
  }
  CHECK(orders.size() > 5);
}

TEST_CASE("a held point stops its stream alone, and the first call lets it go") {
  Letters on;
  const Point held = on.scheduler.hold(on.a);
  on.scheduler.enqueue(on.a, on.letter('x'));
  const Point other = on.scheduler.enqueue(on.b, on.letter('y'));
  while (on.scheduler.step()) {
  }
  CHECK(on.order == "y");
  CHECK(other->done);
  CHECK(on.scheduler.computes_more_than(held));
  CHECK_FALSE(on.scheduler.computes_more_than(on.a.last));
  on.scheduler.let_go(*held, on.letter('1'));
  on.scheduler.let_go(*held, on.letter('2'));
  CHECK(on.run() == "y1x");
}

TEST_CASE(
    "a replay repeats captured work and calls in their order, after earlier work and replays") {
  Letters on;
  on.scheduler.begin_capture(on.a, std::make_shared<Capture>());
  on.scheduler.enqueue(on.b, on.letter('1'), {on.a.last});
  on.scheduler.call(on.b, [&](Stream& now) { on.scheduler.enqueue(now, on.letter('2')); });
  on.scheduler.enqueue(on.a, on.letter('3'), {on.b.last});
  const std::optional<Graph> graph = on.scheduler.end_capture(on.a);
  REQUIRE(graph);
  CHECK(graph->nodes() == 3);
  CHECK(on.run().empty());
  std::array<Stream, 2> lanes;
  for (Stream* stream : {&on.a, &on.b}) {
    on.scheduler.enqueue(*stream, on.letter('0'));
    on.scheduler.replay(*graph, *stream, {&lanes[0], &lanes[1]});
    on.scheduler.enqueue(*stream, on.letter('4'));
  }
  std::string order = on.run();
  std::erase(order, '0');  // of b, at any time before its replay
  CHECK((order == "12341234" || order == "12314234" || order == "12312434" || order == "12312344"));
}

TEST_CASE("a captured stream that the origin does not join is refused, and so is mixed work") {
  Letters on;
  const Point before = on.scheduler.enqueue(on.b, on.letter('1'));
  on.scheduler.begin_capture(on.a, std::make_shared<Capture>());
  CHECK_FALSE(on.scheduler.may_wait(on.a, *before));
  CHECK_THROWS(on.scheduler.enqueue(on.a, {}, {before}));
  const Point captured = on.scheduler.enqueue(on.b, on.letter('2'), {on.a.last});
  CHECK_FALSE(on.scheduler.end_capture(on.a));
  CHECK_FALSE(on.scheduler.may_wait(on.b, *captured));
  CHECK(on.run() == "1");
}

}  // namespace ringlet::streams

TEST_SUITE_END();
