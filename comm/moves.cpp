#include "ringlet/comm/moves.h"

#include <algorithm>
#include <set>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using RankSet = std::set<int>;                   // the ranks that a piece has values of
using Held = std::vector<std::vector<RankSet>>;  // by rank and piece

/// The sum of a piece at the receiver after it has arrived.
RankSet arrived(const RankSet& sent, const RankSet& here, Then then) {
  if (then == Then::copy) return sent;
  RankSet both = here;
  for (const int rank : sent)
    RINGLET_CHECK(both.insert(rank).second, "[moves] the values of rank ", rank,
                  " are added twice");
  return both;
}

}  // namespace

std::vector<Move> all_moves(Op op, Algorithm algorithm, int size) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < size; ++rank)
    schedules.push_back(make_schedule(op, algorithm, rank, size));
  Held held(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    held[static_cast<std::size_t>(rank)].assign(
        static_cast<std::size_t>(count_pieces(schedules.front())), RankSet{rank});

  std::vector<Move> moves;
  for (std::size_t step = 0; step < schedules.front().size(); ++step) {
    const Held before = held;  // all send at the same time
    for (int from = 0; from < size; ++from) {
      for (const auto& [to, piece] : schedules[static_cast<std::size_t>(from)][step].sends) {
        const Step& there = schedules[static_cast<std::size_t>(to)][step];
        RINGLET_CHECK(std::ranges::count(there.receives, Transfer{from, piece}) == 1,
                      "[moves] rank ", to, " does not receive piece ", piece, " of rank ", from,
                      " in step ", step);
        const auto at = static_cast<std::size_t>(piece);
        RankSet& sum = held[static_cast<std::size_t>(to)][at];
        sum = arrived(before[static_cast<std::size_t>(from)][at], sum, there.then);
        moves.push_back({static_cast<int>(step), from, to, piece, there.then,
                         std::vector<int>(sum.begin(), sum.end())});
      }
    }
  }
  return moves;
}

}  // namespace ringlet::comm
