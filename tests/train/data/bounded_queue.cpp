#include "ringlet/train/data/bounded_queue.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>

using ringlet::train::BoundedQueue;

TEST_CASE("items pass between threads in order, then the end") {
  BoundedQueue<int> queue(2);
  std::thread producer([&] {
    for (int i = 0; i < 1000; ++i) queue.push(i);
    queue.close();
  });
  int next = 0;
  while (const auto item = queue.pop()) CHECK_EQ(*item, next++);
  producer.join();
  CHECK(next == 1000);
  CHECK_FALSE(queue.pop().has_value());
}

TEST_CASE("an error comes after the items made before it") {
  BoundedQueue<int> queue(3);
  queue.push(1);
  queue.close(std::make_exception_ptr(std::runtime_error("no more")));
  CHECK(queue.pop() == 1);
  CHECK_THROWS_WITH_AS(queue.pop(), "no more", std::runtime_error);
}

TEST_CASE("a consumer that leaves frees a producer that waits") {
  BoundedQueue<int> queue(1);
  int pushed = 0;
  std::thread producer([&] {
    while (queue.push(pushed)) ++pushed;
  });
  CHECK(queue.pop().has_value());
  queue.cancel();
  producer.join();
  CHECK(pushed >= 1);
  CHECK(pushed <= 2);
}
