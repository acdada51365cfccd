// The device code of the in-kernel all-reduce, simulated block by block on the host.
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
  int offset = 0;          // from a multiple of 16 bytes, for every rank's data
  int skew = 0;            // additional offset for each rank
  int collectives = 1;     // run sequentially
  std::uint32_t flag = 0;  // initial value
};

comm::ReduceOp group_op(CombineOp op, double scale) {
  return op == CombineOp::max ? comm::ReduceOp::max
                              : (scale == 1 ? comm::ReduceOp::sum : comm::ReduceOp::mean);
}

// Several chunks per block, so that all memory is reused.
AllReducePlan small_plan(Route route, std::int64_t n, int ranks) {
  return plan_all_reduce(route, edges_of(n, ranks), 3, 16, 32);
}

template <class T, CombineOp op, Route route>
void check_case(const Case& c, std::uint64_t seed, double scale = 1) {
  CAPTURE(name(dtype_of<T>()));
  CAPTURE(static_cast<int>(route));
  CAPTURE(c.ranks);
  CAPTURE(c.n);
  CAPTURE(c.offset);
  CAPTURE(c.skew);
  CAPTURE(seed);
  const auto input = [&](int rank, int collective) {
    auto values = scattered<T>(c.n, 1000 * seed + 100 * static_cast<std::uint64_t>(collective) +
                                        static_cast<std::uint64_t>(rank));
    if constexpr (op == CombineOp::max && !std::is_integral_v<T>)  // NaN is the largest
      values[static_cast<std::size_t>(rank)] = T(NAN);
    return values;
  };
  std::vector<int> offsets;
  for (int rank = 0; rank < c.ranks; ++rank)
    offsets.push_back((c.offset + rank * c.skew) % (kPack<T> + 1));
  const AllReducePlan plan = small_plan(route, c.n, c.ranks);
  SimulatedRanks<T> ranks(plan, offsets, c.flag);
  ranks.settings().scale = scale;
  const auto results = ranks.template run<op, route>(c.collectives, input, seed);
  CHECK(ranks.error() == 0);
  CHECK(ranks.all_flags_are(c.flag + static_cast<std::uint32_t>(c.collectives) * plan.done()));
  for (int k = 0; k < c.collectives; ++k) {
    std::vector<std::vector<T>> inputs;
    for (int rank = 0; rank < c.ranks; ++rank) inputs.push_back(input(rank, k));
    const auto algorithm = route == Route::ring ? comm::Algorithm::ring : comm::Algorithm::direct;
    const auto expected = reduced_on_cpu(inputs, algorithm, group_op(op, scale));
    for (const auto& result : results[static_cast<std::size_t>(k)])
      CHECK(first_difference(result, expected) == -1);
  }
}

template <class T, CombineOp op = CombineOp::sum>
void check_both(const Case& c, std::uint64_t seed, double scale = 1) {
  check_case<T, op, Route::ring>(c, seed, scale);
  check_case<T, op, Route::direct>(c, seed, scale);
}

}  // namespace

TEST_CASE("cuda: an in-kernel all-reduce has the bits of the CPU's, for any size and place") {
  std::uint64_t seed = 1;
  for (const int ranks : {2, 3, 4, 8})
    for (const std::int64_t n : {1, 15, 17, 130, 1001})
      for (const int offset : {0, 1}) {
        check_both<float>({ranks, n, offset}, seed++);
        check_both<bfloat16>({ranks, n, offset, offset}, seed++);
      }
}

TEST_CASE("cuda: an in-kernel all-reduce of every dtype, as a sum, a mean and a maximum") {
  auto check = [seed = std::uint64_t{100}]<class T>() mutable {
    const Case c{3, 333};
    check_both<T>(c, seed++);
    check_both<T, CombineOp::max>(c, seed++);
    if constexpr (!std::is_integral_v<T>) check_both<T>(c, seed++, 1.0 / 3);
  };
  check.operator()<float>();
  check.operator()<double>();
  check.operator()<bfloat16>();
  check.operator()<float16>();
  check.operator()<std::int32_t>();
  check.operator()<std::int64_t>();
  check.operator()<std::uint8_t>();
}

TEST_CASE("cuda: no access of an in-kernel all-reduce races, in whatever order blocks come") {
  for (std::uint64_t seed = 200; seed < 208; ++seed)
    for (const int ranks : {2, 3, 4, 8}) check_both<bfloat16>({ranks, 700, 0, 0, 2}, seed);
}

TEST_CASE("cuda: in-kernel all-reduces follow each other without a reset of their flags") {
  for (const int ranks : {2, 4})
    check_both<float>({ranks, 500, 0, 0, 4, /*flag=*/0xffffffe0u}, 300);
}

TEST_CASE("cuda: ring and direct take turns over the same flags") {
  const std::int64_t n = 300;
  SimulatedRanks<float> ranks(small_plan(Route::ring, n, 4), {0, 0, 0, 0}, 0xffffffe0u);
  for (std::uint64_t turn = 0; turn < 6; ++turn) {
    const bool ring = turn % 3 != 2;
    std::vector<std::vector<float>> inputs;
    for (std::uint64_t rank = 0; rank < 4; ++rank)
      inputs.push_back(scattered<float>(n, 400 + 10 * turn + rank));
    const auto input = [&](int rank, int) { return inputs[static_cast<std::size_t>(rank)]; };
    ranks.settings().plan = small_plan(ring ? Route::ring : Route::direct, n, 4);
    const auto results = ring ? ranks.run<CombineOp::sum, Route::ring>(1, input, turn)
                              : ranks.run<CombineOp::sum, Route::direct>(1, input, turn);
    const auto algorithm = ring ? comm::Algorithm::ring : comm::Algorithm::direct;
    const auto expected = reduced_on_cpu(inputs, algorithm, comm::ReduceOp::sum);
    CHECK(ranks.error() == 0);
    for (const auto& result : results[0]) CHECK(first_difference(result, expected) == -1);
  }
}

TEST_CASE(
    "cuda: a rank that waits too long in an all-reduce names the peer and the step, and all end") {
  const auto stall = [](Route route, int absent) {
    SimulatedRanks<float> ranks(small_plan(route, 500, 4), {0, 0, 0, 0});
    ranks.leave_out(absent);
    const auto input = [](int rank, int) { return std::vector<float>(500, float(rank)); };
    route == Route::ring ? ranks.run<CombineOp::sum, Route::ring>(1, input, 1)
                         : ranks.run<CombineOp::sum, Route::direct>(1, input, 1);
    return Stall::of(ranks.error());
  };
  for (int absent = 0; absent < 4; ++absent) {
    const Stall direct = stall(Route::direct, absent);
    CHECK(direct.peer == absent);
    CHECK(direct.rank != absent);
    CHECK(direct.step == 0);
    // In a ring the next rank receives no signal from it; then the other ranks stall, too.
    const Stall ring = stall(Route::ring, absent);
    CHECK(ring.peer == absent);
    CHECK(ring.rank == (absent + 1) % 4);
    CHECK(ring.step == 0);
    CHECK(ring.segment == 0);
  }
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
