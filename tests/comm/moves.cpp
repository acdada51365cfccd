#include "ringlet/comm/moves.h"

#include <doctest/doctest.h>

#include <set>

TEST_SUITE_BEGIN("host");

using namespace ringlet::comm;

// Multisets, so that values that are added twice show.
TEST_CASE("summed over the moves of an all-reduce, every rank has each rank's values once") {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct}) {
    for (int size = 2; size <= 9; ++size) {
      CAPTURE(size);
      const auto n = static_cast<std::size_t>(size);
      const std::vector<Move> moves = all_moves(Op::all_reduce, algorithm, size);
      CHECK(moves.size() == 2 * n * (n - 1));
      std::vector<std::vector<std::multiset<int>>> held(n);
      for (int rank = 0; rank < size; ++rank)
        held[static_cast<std::size_t>(rank)].assign(n, std::multiset<int>{rank});
      for (std::size_t i = 0; i < moves.size();) {
        const auto before = held;
        for (const int step = moves[i].step; i < moves.size() && moves[i].step == step; ++i) {
          const Move& move = moves[i];
          const auto piece = static_cast<std::size_t>(move.piece);
          std::multiset<int>& there = held[static_cast<std::size_t>(move.to)][piece];
          if (move.then == Then::copy) there.clear();
          for (const int rank : before[static_cast<std::size_t>(move.from)][piece])
            there.insert(rank);
          CHECK(move.sum == std::vector<int>(there.begin(), there.end()));
        }
      }
      for (const auto& pieces : held)
        for (const std::multiset<int>& piece : pieces) {
          CHECK(piece.size() == n);
          CHECK(std::set<int>(piece.begin(), piece.end()).size() == n);
        }
    }
  }
}

TEST_CASE("one rank moves nothing") {
  CHECK(all_moves(Op::all_reduce, Algorithm::ring, 1).empty());
}

TEST_SUITE_END();
