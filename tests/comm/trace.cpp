#include "ringlet/comm/trace.h"

#include <doctest/doctest.h>

#include <sstream>

#include "ranks.h"
#include "simulate.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;

namespace {

/// The output of rank 0 of three.
std::string traced(Algorithm algorithm, const std::function<void(const Group&)>& body) {
  std::ostringstream out;
  TracePrinter printer(out);
  launch(
      [&](const Group& outer) {
        body(outer.subgroup({0, 1, 2}, {.algorithm = algorithm,
                                        .observer = outer.rank() == 0 ? &printer : nullptr}));
      },
      3);
  return out.str();
}

}  // namespace

// The textbook's ring: in step s rank r sends piece r - 1 - s and adds to piece r - 2 - s. Then it
// distributes the complete pieces, piece r first.
TEST_CASE("the trace of a ring is the textbook's schedule") {
  CHECK(traced(Algorithm::ring,
               [](const Group& group) {
                 Tensor x = zeros({96});
                 group.all_reduce(x).wait();
               }) ==
        "collective 1: all_reduce (f32, 96), ring, rank 0 of 3\n"
        "  step  send              receive           then\n"
        "     0  2 -> 1, 128 B     1 <- 2, 128 B     add\n"
        "     1  1 -> 1, 128 B     0 <- 2, 128 B     add\n"
        "     2  0 -> 1, 128 B     2 <- 2, 128 B     copy\n"
        "     3  2 -> 1, 128 B     1 <- 2, 128 B     copy\n");
}

TEST_CASE("the trace of direct collectives") {
  CHECK(traced(Algorithm::direct,
               [](const Group& group) {
                 Tensor x = zeros({48}, DType::bf16);
                 group.all_reduce(x).wait();
                 group.broadcast(x, 2).wait();
                 group.barrier();
               }) ==
        "collective 1: all_reduce (bf16, 48), direct, rank 0 of 3\n"
        "  step  send              receive           then\n"
        "     0  1 -> 1, 32 B      0 <- 1, 32 B      add all, by the tree\n"
        "        2 -> 2, 32 B      0 <- 2, 32 B\n"
        "     1  0 -> 1, 32 B      1 <- 1, 32 B      copy\n"
        "        0 -> 2, 32 B      2 <- 2, 32 B\n"
        "collective 2: broadcast (bf16, 48), direct, rank 0 of 3\n"
        "  step  send              receive           then\n"
        "     0                    0 <- 2, 96 B      copy\n"
        "collective 3: barrier, direct, rank 0 of 3\n"
        "  step  send              receive           then\n"
        "     0  0 -> 1, 0 B       0 <- 2, 0 B       copy\n"
        "     1  0 -> 2, 0 B       0 <- 1, 0 B       copy\n");
}

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
