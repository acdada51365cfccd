#include "ringlet/cuda/all_reduce_plan.h"

#include <doctest/doctest.h>

#include <vector>

#include "all_reduce_pieces.h"

using namespace ringlet;
using namespace ringlet::cuda;

TEST_CASE("cuda: a plan has as many blocks as there is work for, and chunks to share it evenly") {
  const auto plan = [](std::int64_t n) {
    return plan_all_reduce(CombineRoute::direct, edges_of(n, 2), 8, 1024, 4096);
  };
  CHECK(plan(1).blocks == 1);
  CHECK(plan(1).chunk == 16);
  CHECK(plan(2 * 3000).blocks == 3);
  CHECK(plan(2 * 3000).chunk == 1008);
  CHECK(plan(2 * 3000).segments == 1);
  CHECK(plan(2 * 8 * 4096).segments == 1);
  CHECK(plan(2 * 8 * 4096 + 32).blocks == 8);
  CHECK(plan(2 * 8 * 4096 + 32).chunk == 4096);
  CHECK(plan(2 * 8 * 4096 + 32).segments == 2);
  CHECK(plan(0).segments == 0);
}

TEST_CASE("cuda: a plan refuses edges that no even pieces have") {
  const auto plan = [](std::vector<std::int64_t> edges) {
    plan_all_reduce(CombineRoute::ring, edges, 1, 16, 16);
  };
  CHECK_NOTHROW(plan({0, 16, 16, 20, 20}));
  CHECK_THROWS_AS(plan({0, 8, 20}), Error);
  CHECK_THROWS_AS(plan({16, 32, 48}), Error);
  CHECK_THROWS_AS(plan({0, 32, 16, 48}), Error);
  CHECK_THROWS_AS(plan({0, 32}), Error);
  CHECK_THROWS_AS(plan(std::vector<std::int64_t>(kMostPeers + 2)), Error);
}

TEST_CASE("cuda: flags are compared across the wrap, and a stall names the rank and the peer") {
  CHECK(reached(5, 5));
  CHECK(reached(6, 5));
  CHECK_FALSE(reached(4, 5));
  CHECK(reached(2, 0xfffffff0u));
  CHECK_FALSE(reached(0xfffffff0u, 2));

  const Stall stall = Stall::of(Stall{31, 7, 61, 0xffffff}.word());
  CHECK(describe(stall) == "rank 31 waited too long for rank 7 in step 61, segment 16777215");
  CHECK(Stall{0, 0, 0, 0}.word() != 0);
  CHECK(Stall{7, 7, 5, 1}.word() < Stall{0, 0, 6, 1}.word());
  CHECK(Stall{7, 7, 5, 1}.word() < Stall{0, 0, 0, 2}.word());
  CHECK(describe(Stall::of(Stall{2, 1, Stall::kEnd, 9}.word())) ==
        "rank 2 waited too long for rank 1 at the end");
}
