#include "ringlet/comm/trace.h"

#include "simulate.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet::comm;

TEST_CASE("the moves of an all-reduce end with the sums of its simulated schedules") {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct})
    for (int size = 1; size <= 9; ++size) {
      CAPTURE(size);
      const std::vector<Move> moves = all_moves(Op::all_reduce, algorithm, size);
      CHECK(std::ssize(moves) == 2 * size * (size - 1));
      Values held = own_contributions(size, size);
      for (const Move& move : moves)
        held[static_cast<std::size_t>(move.to)][static_cast<std::size_t>(move.piece)] = move.sum;
      Values expected = simulate(schedules_of_all(size, Op::all_reduce, algorithm),
                                 own_contributions(size, size));
      for (auto& pieces : expected)
        for (Value& sum : pieces) std::sort(sum.begin(), sum.end());
      CHECK(held == expected);
    }
}

TEST_SUITE_END();
