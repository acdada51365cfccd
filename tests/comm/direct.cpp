#include "simulate.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::comm;

namespace {

Value in_order(int size) {
  Value ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace

TEST_CASE("three ranks, step by step") {
  CHECK(make_schedule(Op::reduce_scatter, Algorithm::direct, 1, 3) ==
        Schedule{{{{2, 2}, {0, 0}}, {{2, 1}, {0, 1}}, Then::add_all}});
  CHECK(make_schedule(Op::all_gather, Algorithm::direct, 1, 3) ==
        Schedule{{{{2, 1}, {0, 1}}, {{2, 2}, {0, 0}}, Then::copy}});
}

TEST_CASE("direct reduce-scatter: piece r is whole at rank r after one step") {
  for (const AtEnd& it : at_end(Op::reduce_scatter, Algorithm::direct)) {
    CHECK(it.pieces[it.rank] == in_order(it.size));
    CHECK(it.steps == 1);
    CHECK(it.sent == 60 / it.size * (it.size - 1));
  }
}

TEST_CASE("direct all-reduce: two steps, 2 (n - 1) / n of the buffer, whole everywhere") {
  for (const AtEnd& it : at_end(Op::all_reduce, Algorithm::direct)) {
    for (const Value& value : it.pieces) CHECK(value == in_order(it.size));
    CHECK(it.steps == 2);
    CHECK(it.sent == 2 * 60 / it.size * (it.size - 1));
  }
}

TEST_CASE("direct all-gather: one step") {
  for (const AtEnd& it : at_end(Op::all_gather, Algorithm::direct)) {
    CHECK(it.pieces == owners(it.size));
    CHECK(it.steps == 1);
    CHECK(it.sent == 60 / it.size * (it.size - 1));
  }
}

TEST_CASE("direct broadcast: the root sends all there is to each") {
  for (const AtEnd& it : at_end(Op::broadcast, Algorithm::direct)) {
    CHECK(it.pieces == std::vector<Value>{{it.root}});
    CHECK(it.sent == (static_cast<int>(it.rank) == it.root ? 60 * (it.size - 1) : 0));
  }
}

TEST_CASE("unequal and empty pieces: a rank sends all but its own, then its own to each") {
  const Pieces pieces = {{0, 5}, {5, 0}, {5, 1}};
  for (int rank = 0; rank < 3; ++rank) {
    const std::int64_t own = pieces[static_cast<std::size_t>(rank)].count;
    CHECK(elements_sent(make_schedule(Op::all_reduce, Algorithm::direct, rank, 3), pieces) ==
          6 - own + 2 * own);
  }
}

TEST_SUITE_END();
