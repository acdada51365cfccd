// Reductions are cut so that every element is in one chunk, and none is empty.
#include "ringlet/cuda/reduce_plan.h"

#include <doctest/doctest.h>

namespace ringlet::cuda {
namespace {

TEST_CASE("cuda reduce: chunks cover all and none is empty") {
  for (std::int64_t outer : {1, 3, 1600, 5000})
    for (std::int64_t inner : {1, 2, 33, 768, 30527})
      for (std::int64_t n : {0, 1, 7, 63, 64, 255, 1000, 1600, 100003, 1 << 30}) {
        const ReducePlan plan = plan_reduce(outer, n, inner);
        CAPTURE(outer);
        CAPTURE(inner);
        CAPTURE(n);
        CHECK(plan.chunks >= 1);
        CHECK(plan.length >= 1);
        CHECK(plan.chunks * plan.length >= n);
        CHECK((plan.chunks - 1) * plan.length <= std::max<std::int64_t>(n - 1, 0));
        CHECK(plan.length % (inner == 1 ? 256 : kTileRows) == 0);
        CHECK(plan.chunks <= 4096);
      }
}

TEST_CASE("cuda reduce: a step's reductions fill the device, and small ones run in one launch") {
  CHECK(plan_reduce(1600, 768, 1).chunks == 1);
  CHECK(plan_reduce(1, 1600, 768).chunks == 25);  // 24 tiles of columns, 64 rows each
  CHECK(plan_reduce(1, 109'000'000, 1).chunks > 4000);
  CHECK(plan_reduce(1, 512, 1).chunks == 1);
}

}  // namespace
}  // namespace ringlet::cuda
