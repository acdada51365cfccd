// Simulates the schedules of all ranks without data. A piece's value is the list of ranks that
// contributed to it, in the order of summation.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>

#include "ringlet/comm/schedule.h"

namespace ringlet::comm {

using Value = std::vector<int>;
using Values = std::vector<std::vector<Value>>;  // [rank][piece]

/// The schedule of each rank.
inline std::vector<Schedule> schedules_of_all(int size, Op op, Algorithm algorithm, int root = 0) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < size; ++rank)
    schedules.push_back(make_schedule(op, algorithm, rank, size, root));
  return schedules;
}

/// Every rank holds its contribution to every piece.
inline Values own_contributions(int ranks, int pieces) {
  Values values;
  for (int rank = 0; rank < ranks; ++rank)
    values.emplace_back(static_cast<std::size_t>(pieces), Value{rank});
  return values;
}

/// Checks that in each step every send has its receive, and that no rank overwrites data that a
/// peer may still read. Returns the resulting values.
inline Values simulate(const std::vector<Schedule>& schedules, Values values) {
  const int size = static_cast<int>(schedules.size());
  const auto at = [](auto& list, int i) -> auto& { return list[static_cast<std::size_t>(i)]; };
  struct Read {
    int reader, piece, step;
  };
  std::vector<std::vector<Read>> reads(schedules.size());  // of each rank's pieces
  // known[r][q]: the number of rank q's steps that rank r knows to be complete.
  std::vector<std::vector<int>> known(schedules.size(), std::vector<int>(schedules.size(), 0));

  for (const Schedule& schedule : schedules) REQUIRE(schedule.size() == schedules[0].size());
  for (int step = 0; step < static_cast<int>(schedules[0].size()); ++step) {
    const Values before = values;
    const auto known_before = known;
    int sends = 0, receives = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Step& mine = at(at(schedules, rank), step);
      sends += static_cast<int>(mine.sends.size());
      receives += static_cast<int>(mine.receives.size());
      std::vector<Value> arrived;
      for (const auto& [peer, piece, node] : mine.receives) {
        REQUIRE(peer != rank);
        const auto& theirs = at(at(schedules, peer), step).sends;
        REQUIRE(std::count(theirs.begin(), theirs.end(), Transfer{rank, piece, node}) == 1);
        at(reads, peer).push_back({rank, piece, step});
        arrived.push_back(at(at(before, peer), piece));
        for (int other = 0; other < size; ++other)
          at(at(known, rank), other) =
              std::max(at(at(known, rank), other), at(at(known_before, peer), other));
      }
      for (std::size_t i = 0; i < arrived.size(); ++i) {
        Value& value = at(at(values, rank), mine.receives[i].piece);
        if (mine.then == Then::copy) value = arrived[i];
        if (mine.then == Then::add) {
          Value sum = arrived[i];
          sum.insert(sum.end(), value.begin(), value.end());
          value = sum;
        }
        if (mine.then == Then::add_all)
          value.insert(value.end(), arrived[i].begin(), arrived[i].end());
      }
      if (mine.then == Then::add_all)
        std::sort(at(at(values, rank), rank).begin(), at(at(values, rank), rank).end());
      at(at(known, rank), rank) = step + 1;
    }
    REQUIRE(sends == receives);
    for (int rank = 0; rank < size; ++rank)
      for (const auto& [peer, piece, node] : at(at(schedules, rank), step).receives)
        for (const Read& read : at(reads, rank))
          if (read.piece == piece) CHECK(at(at(known, rank), read.reader) > read.step);
  }
  return values;
}

/// A rank at the end of its schedule.
struct AtEnd {
  int size, root;
  std::size_t rank, steps;
  std::vector<Value> pieces;
  std::int64_t sent;  // of 60 elements
};

/// All ranks of groups of 1 to 6. A broadcast has every root; a direct one is of a single piece.
inline std::vector<AtEnd> at_end(Op op, Algorithm algorithm) {
  std::vector<AtEnd> all;
  for (int size = 1; size <= 6; ++size)
    for (int root = 0; root < (op == Op::broadcast ? size : 1); ++root) {
      const int pieces = op == Op::broadcast && algorithm == Algorithm::direct ? 1 : size;
      const auto schedules = schedules_of_all(size, op, algorithm, root);
      const Values values = simulate(schedules, own_contributions(size, pieces));
      for (std::size_t rank = 0; rank < values.size(); ++rank)
        all.push_back({size, root, rank, schedules[rank].size(), values[rank],
                       elements_sent(schedules[rank], even_pieces(60, pieces))});
    }
  return all;
}

/// Piece i has the value of its owner, rank i.
inline std::vector<Value> owners(int size) {
  std::vector<Value> pieces;
  for (int rank = 0; rank < size; ++rank) pieces.push_back({rank});
  return pieces;
}

}  // namespace ringlet::comm
