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
  for (int size = 1; size <= 6; ++size) {
    const auto schedules = schedules_of_all(size, Op::reduce_scatter, Algorithm::direct);
    const Values values = simulate(schedules, own_contributions(size, size));
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      CHECK(values[rank][rank] == in_order(size));
      CHECK(schedules[rank].size() == 1);
      CHECK(elements_sent(schedules[rank], even_pieces(60, size)) == 60 / size * (size - 1));
    }
  }
}

TEST_CASE("direct all-reduce: two steps, 2 (n - 1) / n of the buffer, whole everywhere") {
  for (int size = 1; size <= 6; ++size) {
    const auto schedules = schedules_of_all(size, Op::all_reduce, Algorithm::direct);
    const Values values = simulate(schedules, own_contributions(size, size));
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      for (const Value& value : values[rank]) CHECK(value == in_order(size));
      CHECK(schedules[rank].size() == 2);
      CHECK(elements_sent(schedules[rank], even_pieces(60, size)) == 2 * 60 / size * (size - 1));
    }
  }
}

TEST_CASE("direct all-gather: one step") {
  for (int size = 1; size <= 6; ++size) {
    const auto schedules = schedules_of_all(size, Op::all_gather, Algorithm::direct);
    const Values values = simulate(schedules, own_contributions(size, size));
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      for (int piece = 0; piece < size; ++piece)
        CHECK(values[rank][static_cast<std::size_t>(piece)] == Value{piece});
      CHECK(elements_sent(schedules[rank], even_pieces(60, size)) == 60 / size * (size - 1));
    }
  }
}

TEST_CASE("direct broadcast: the root sends all there is to each") {
  for (int size = 1; size <= 6; ++size)
    for (int root = 0; root < size; ++root) {
      const auto schedules = schedules_of_all(size, Op::broadcast, Algorithm::direct, root);
      const Values values = simulate(schedules, own_contributions(size, 1));
      for (int rank = 0; rank < size; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        CHECK(values[r][0] == Value{root});
        CHECK(elements_sent(schedules[r], even_pieces(60, 1)) ==
              (rank == root ? 60 * (size - 1) : 0));
      }
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
