// The device code of the in-kernel all-reduce, block by block on the host. Here each rank goes on
// to the next collective by itself, as it would on a device of its own. On one GPU a launch ends
// first.
#include <doctest/doctest.h>

#include "all_reduce_pieces.h"
#include "all_reduce_reference.h"
#include "all_reduce_simulation.h"

using namespace ringlet;
using namespace ringlet::cuda;

namespace {

struct Case {
  int ranks;
  std::int64_t n;
  int collectives;         // run sequentially
  std::uint32_t flag = 0;  // initial value
};

// Several chunks per block, so that all memory is reused.
AllReducePlan small_plan(Route route, std::int64_t n, int ranks) {
  return plan_all_reduce(route, edges_of(n, ranks), 3, 16, 32);
}

template <class T, Route route>
void check_route(const Case& c, std::uint64_t seed) {
  CAPTURE(static_cast<int>(route));
  CAPTURE(c.ranks);
  CAPTURE(seed);
  const auto input = [&](int rank, int collective) {
    return scattered<T>(c.n, 1000 * seed + 100 * static_cast<std::uint64_t>(collective) +
                                 static_cast<std::uint64_t>(rank));
  };
  const AllReducePlan plan = small_plan(route, c.n, c.ranks);
  SimulatedRanks<T> ranks(plan, std::vector<int>(static_cast<std::size_t>(c.ranks)), c.flag);
  const auto results = ranks.template run<CombineOp::sum, route>(c.collectives, input, seed);
  CHECK(ranks.error() == 0);
  CHECK(ranks.all_flags_are(c.flag + static_cast<std::uint32_t>(c.collectives) * plan.done()));
  for (int k = 0; k < c.collectives; ++k) {
    std::vector<std::vector<T>> inputs;
    for (int rank = 0; rank < c.ranks; ++rank) inputs.push_back(input(rank, k));
    const auto algorithm = route == Route::ring ? comm::Algorithm::ring : comm::Algorithm::direct;
    const auto expected = reduced_on_cpu(inputs, algorithm, comm::ReduceOp::sum);
    for (const auto& result : results[static_cast<std::size_t>(k)])
      CHECK(first_difference(result, expected) == -1);
  }
}

template <class T>
void check_both(const Case& c, std::uint64_t seed) {
  check_route<T, Route::ring>(c, seed);
  check_route<T, Route::direct>(c, seed);
}

}  // namespace

TEST_CASE("cuda: no access of an in-kernel all-reduce races, in whatever order blocks come") {
  for (std::uint64_t seed = 200; seed < 208; ++seed)
    for (const int ranks : {2, 3, 4, 8}) check_both<bfloat16>({ranks, 700, 2}, seed);
}

TEST_CASE("cuda: in-kernel all-reduces follow each other without a reset of their flags") {
  for (const int ranks : {2, 4}) check_both<float>({ranks, 500, 4, /*flag=*/0xffffffe0u}, 300);
}

TEST_CASE("cuda: the simulation sees what is read too early, and overwritten too soon") {
  int data = 0;
  std::uint32_t flag = 0, back = 0;
  const auto run = [&](bool waits, bool answers) {
    BlockSimulation simulation(7);
    const auto wait = [&](int me, std::uint32_t& at) {
      while (at == 0) simulation.yield(me, [&] { return at == 0; });
      simulation.acquire(me, &at);
    };
    const auto raise = [&](int me, std::uint32_t& at) { simulation.release(me, &at), at = 1; };
    flag = back = 0;
    simulation.add([&] {
      simulation.write(0, &data);
      raise(0, flag);
      if (answers) wait(0, back);
      simulation.write(0, &data);
    });
    simulation.add([&] {
      if (waits) wait(1, flag);
      simulation.read(1, &data);
      raise(1, back);
    });
    simulation.run();
  };
  CHECK_NOTHROW(run(true, true));
  CHECK_THROWS_AS(run(false, true), Error);
  CHECK_THROWS_AS(run(true, false), Error);
}
