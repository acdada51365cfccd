#include "ringlet/cuda/all_reduce_plan.h"

#include <doctest/doctest.h>

#include <vector>

#include "all_reduce_pieces.h"
#include "ringlet/comm/schedule.h"

using namespace ringlet;
using namespace ringlet::cuda;

TEST_CASE("cuda: the blocks' parts of an all-reduce cover every piece once, in packs") {
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t n : {1, 15, 16, 17, 100, 1000, 5000})
      for (const int blocks : {1, 3, 7})
        for (const std::int64_t most : {16, 40, 1000}) {
          CAPTURE(ranks);
          CAPTURE(n);
          CAPTURE(blocks);
          CAPTURE(most);
          const auto plan = plan_all_reduce(Route::ring, edges_of(n, ranks), blocks, 16, most);
          CHECK(plan.blocks <= blocks);
          CHECK(plan.chunk % AllReducePlan::kEdge == 0);
          CHECK(plan.chunk <= most);
          std::vector<int> seen(static_cast<std::size_t>(n));
          for (int piece = 0; piece < ranks; ++piece)
            for (std::int64_t segment = 0; segment < plan.segments; ++segment)
              for (int block = 0; block < plan.blocks; ++block) {
                const Part part = plan.part(piece, segment, block);
                REQUIRE(part.count <= plan.chunk);
                if (part.count > 0) CHECK(part.begin % AllReducePlan::kEdge == 0);
                for (std::int64_t i = 0; i < part.count; ++i) {
                  CHECK(plan.edge[piece] <= part.begin + i);
                  CHECK(part.begin + i < plan.edge[piece + 1]);
                  ++seen.at(static_cast<std::size_t>(part.begin + i));
                }
              }
          CHECK(seen == std::vector<int>(static_cast<std::size_t>(n), 1));
        }
}

TEST_CASE("cuda: a plan has as many blocks as there is work for, and chunks to share it evenly") {
  const auto plan = [](std::int64_t n) {
    return plan_all_reduce(Route::direct, edges_of(n, 2), 8, 1024, 4096);
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

TEST_CASE(
    "cuda: the ring's steps are those of the schedule, and nothing is read before it is said") {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const auto plan = plan_all_reduce(Route::ring, edges_of(1000, ranks), 2, 16, 64);
    CHECK(plan.slots() == ranks - 2);
    for (int rank = 0; rank < ranks; ++rank) {
      const comm::Schedule schedule =
          comm::make_schedule(comm::Op::all_reduce, comm::Algorithm::ring, rank, ranks);
      REQUIRE(plan.ring_steps() == static_cast<int>(schedule.size()));
      for (int step = 0; step < plan.ring_steps(); ++step) {
        const RingStep now = plan.ring_step(rank, step);
        const comm::Step& expected = schedule[static_cast<std::size_t>(step)];
        CHECK(now.piece == expected.receives[0].piece);
        CHECK(now.gathers == (expected.then == comm::Then::copy));
        CHECK(now.first == (step == 0));
        CHECK(now.last == (!now.gathers && now.piece == rank));
        const RingStep before = plan.ring_step(plan.around(rank - 1), step - 1);
        if (step > 0) CHECK(before.piece == now.piece);
        if (step > 0 && !now.gathers) CHECK(before.to_slot == now.from_slot);
        if (!now.gathers && !now.last) CHECK(now.to_slot < plan.slots());
      }
    }
    for (std::int64_t segment = 0; segment < plan.segments; ++segment)
      CHECK(plan.signal(segment, plan.ring_steps() - 1) == plan.signal(segment + 1, 0));
    CHECK(plan.done() > plan.signal(plan.segments, 0));
    if (ranks > 2)
      CHECK(plan.slot_begin(plan.blocks - 1, plan.slots() - 1) + plan.chunk == plan.staging());
  }
}

TEST_CASE("cuda: a plan refuses edges that no even pieces have") {
  const auto plan = [](std::vector<std::int64_t> edges) {
    plan_all_reduce(Route::ring, edges, 1, 16, 16);
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
