#include "ringlet/core/base/recently_used.h"

#include <doctest/doctest.h>

using namespace ringlet;

TEST_CASE("a table of recent entries drops the least recently used") {
  RecentlyUsed<int, int> table(2);
  int made = 0;
  const auto find = [&](int key) { return table.find(key, [&] { return ++made; }); };
  CHECK(find(10) == 1);
  CHECK(find(20) == 2);
  CHECK(find(10) == 1);
  CHECK(find(30) == 3);  // evicts 20
  CHECK(find(10) == 1);
  CHECK(find(20) == 4);  // evicts 30
  CHECK(find(10) == 1);
  CHECK(table.size() == 2);
  table.clear();
  CHECK(find(10) == 5);
}
