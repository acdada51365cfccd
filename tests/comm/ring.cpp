#include "simulate.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;

namespace {

/// Ranks in the order in which a ring adds piece `piece`: its owner last.
Value around(int piece, int size) {
  Value ranks;
  for (int i = 1; i <= size; ++i) ranks.push_back((piece + i) % size);
  return ranks;
}

}  // namespace

TEST_CASE("three ranks, step by step") {
  // Rank 0 sends to rank 1 and receives from rank 2.
  CHECK(make_schedule(Op::reduce_scatter, Algorithm::ring, 0, 3) ==
        Schedule{{{{1, 2}}, {{2, 1}}, Then::add}, {{{1, 1}}, {{2, 0}}, Then::add}});
  CHECK(make_schedule(Op::all_gather, Algorithm::ring, 0, 3) ==
        Schedule{{{{1, 0}}, {{2, 2}}, Then::copy}, {{{1, 2}}, {{2, 1}}, Then::copy}});
}

TEST_CASE("ring reduce-scatter: piece r is whole at rank r after n - 1 steps") {
  for (const AtEnd& it : at_end(Op::reduce_scatter, Algorithm::ring)) {
    CHECK(it.pieces[it.rank] == around(static_cast<int>(it.rank), it.size));
    CHECK(it.steps == static_cast<std::size_t>(it.size - 1));
    CHECK(it.sent == 60 / it.size * (it.size - 1));
  }
}

TEST_CASE("ring all-gather: every rank has every owner's piece after n - 1 steps") {
  for (const AtEnd& it : at_end(Op::all_gather, Algorithm::ring)) {
    CHECK(it.pieces == owners(it.size));
    CHECK(it.steps == static_cast<std::size_t>(it.size - 1));
    CHECK(it.sent == 60 / it.size * (it.size - 1));
  }
}

TEST_CASE(
    "ring all-reduce: 2 (n - 1) steps, 2 (n - 1) / n of the buffer, the same sum everywhere") {
  for (const AtEnd& it : at_end(Op::all_reduce, Algorithm::ring)) {
    for (int piece = 0; piece < it.size; ++piece)
      CHECK(it.pieces[static_cast<std::size_t>(piece)] == around(piece, it.size));
    CHECK(it.steps == static_cast<std::size_t>(2 * (it.size - 1)));
    CHECK(it.sent == 2 * 60 / it.size * (it.size - 1));
  }
}

TEST_CASE("with pieces of unequal size each link still carries every piece but one, twice") {
  const Pieces pieces = {{0, 5}, {5, 0}, {5, 1}};
  for (int rank = 0; rank < 3; ++rank) {
    const std::int64_t not_added = pieces[static_cast<std::size_t>(rank)].count;
    const std::int64_t not_spread = pieces[static_cast<std::size_t>((rank + 1) % 3)].count;
    CHECK(elements_sent(make_schedule(Op::all_reduce, Algorithm::ring, rank, 3), pieces) ==
          6 - not_added + 6 - not_spread);
  }
}

TEST_CASE("ring broadcast: pieces follow each other down the chain") {
  for (const AtEnd& it : at_end(Op::broadcast, Algorithm::ring)) {
    for (const Value& value : it.pieces) CHECK(value == Value{it.root});
    CHECK(it.steps == static_cast<std::size_t>(2 * (it.size - 1)));
    const bool last = (static_cast<int>(it.rank) + 1) % it.size == it.root;
    CHECK(it.sent == (last ? 0 : 60));
  }
}

TEST_CASE("a barrier tells every rank of every other in ceil(log2 n) steps") {
  for (int size = 1; size <= 9; ++size) {
    std::size_t steps = 0;
    while ((1 << steps) < size) ++steps;
    const auto schedules = schedules_of_all(size, Op::barrier, Algorithm::ring);
    std::vector<Value> heard;  // by each rank: ranks that it knows of
    for (int rank = 0; rank < size; ++rank) heard.push_back({rank});
    for (std::size_t step = 0; step < steps; ++step) {
      const auto before = heard;
      for (std::size_t rank = 0; rank < heard.size(); ++rank)
        for (const auto& [peer, piece, node] : schedules[rank][step].receives)
          for (const int other : before[static_cast<std::size_t>(peer)])
            heard[rank].push_back(other);
    }
    for (std::size_t rank = 0; rank < heard.size(); ++rank) {
      CHECK(schedules[rank].size() == steps);
      for (int other = 0; other < size; ++other)
        CHECK(std::count(heard[rank].begin(), heard[rank].end(), other) >= 1);
    }
  }
}

TEST_CASE("even pieces meet, cover all and end at multiples of the edge") {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 100, 1000})
    for (const int parts : {1, 2, 3, 7})
      for (const std::int64_t align : {1, 16}) {
        const Pieces pieces = even_pieces(n, parts, align);
        CHECK(pieces.size() == static_cast<std::size_t>(parts));
        std::int64_t end = 0;
        for (const Piece& piece : pieces) {
          CHECK(piece.offset == end);
          CHECK((piece.offset % align == 0 || piece.offset == n));
          CHECK(piece.count >= 0);
          CHECK(piece.count <= n / parts + 2 * align);
          end += piece.count;
        }
        CHECK(end == n);
      }
}

TEST_SUITE_END();
