#include "ringlet/train/data/bounded_queue.h"

#include <doctest/doctest.h>

#include <thread>

using ringlet::train::BoundedQueue;

TEST_CASE("items pass between threads in order") {
  BoundedQueue<int> queue(2);
  std::thread producer([&] {
    for (int i = 0; i < 1000; ++i) queue.push(i);
  });
  for (int i = 0; i < 1000; ++i) CHECK_EQ(queue.pop(), i);
  producer.join();
}

TEST_CASE("a consumer that leaves frees a producer that waits") {
  BoundedQueue<int> queue(1);
  int pushed = 0;
  std::thread producer([&] {
    while (queue.push(pushed)) ++pushed;
  });
  CHECK(queue.pop() == 0);
  queue.cancel();
  producer.join();
  CHECK(pushed >= 1);
  CHECK(pushed <= 2);
}
