#include <doctest/doctest.h>

#include "ringlet/core/base/error.h"

using namespace ringlet;

TEST_CASE("a failed check shows both values") {
  CHECK_THROWS_WITH_AS(RINGLET_CHECK_EQ(3, 4, "[matmul] inner sizes differ"),
                       "[matmul] inner sizes differ: 3 != 4", Error);
}

TEST_CASE("bad input is an error of its own kind") {
  CHECK_THROWS_AS(fail_input("data.csv:3: expected 3 columns, found 2"), InputError);
  CHECK_THROWS_AS(fail_input("anything"), Error);
}
