// Reductions are divided so that every element is in one chunk, and no chunk is empty.
#include "ringlet/cuda/reduce_plan.h"

#include <doctest/doctest.h>

namespace ringlet::cuda {
namespace {

TEST_CASE("cuda reduce: chunks cover all and none is empty") {
  for (bool rows : {true, false})
    for (std::int64_t n : {0, 1, 7, 63, 64, 255, 256, 257, 1000, 1600, 16385, 100003, 1 << 30}) {
      const ReducePlan plan = plan_reduce(n, rows);
      CAPTURE(rows);
      CAPTURE(n);
      CHECK(plan.chunks >= 1);
      CHECK(plan.chunks * plan.length >= n);
      CHECK((plan.chunks - 1) * plan.length <= std::max<std::int64_t>(n - 1, 0));
      CHECK(plan.length % (rows ? 256 : kTileRows) == 0);
      CHECK(plan.chunks <= (rows ? 4096 : 1024));
    }
}

TEST_CASE("cuda reduce: rows of a model run in one launch, long reductions fill the device") {
  CHECK(plan_reduce(768, true).chunks == 1);
  CHECK(plan_reduce(109'000'000, true).chunks > 4000);
  CHECK(plan_reduce(1600, false).chunks == 25);
  CHECK(plan_reduce(1 << 20, false).chunks == 1024);
}

}  // namespace
}  // namespace ringlet::cuda
