#include "ringlet/comm/trace.h"

#include <algorithm>
#include <bit>
#include <iomanip>
#include <set>
#include <sstream>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

std::string_view verb(Then then) {
  switch (then) {
    case Then::copy:
      return "copy";
    case Then::add:
      return "add";
    case Then::add_all:
      return "add all, by the tree";
    case Then::stack:
      break;
  }
  return "stack, in rank order";
}

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

void TracePrinter::begins(const Collective& collective, const Membership& rank) {
  const Call& call = collective.call;
  std::ostringstream out;
  out << "collective " << call.sequence << ": " << describe(call) << ", " << name(call.algorithm)
      << ", rank " << rank.rank << " of " << rank.size;
  if (collective.segments > 1) out << ", in " << collective.segments << " segments";
  out << "\n  step  send              receive           then\n";

  const auto column = [&](const std::vector<Transfer>& transfers, std::size_t line,
                          const char* arrow) {
    if (line >= transfers.size()) return std::string();
    const auto& [peer, piece, node] = transfers[line];
    const auto elements = collective.pieces[static_cast<std::size_t>(piece)].count;
    return str(piece, node > 0 ? str('.', node) : "", arrow, peer, ", ",
               static_cast<std::size_t>(elements) * itemsize(call.dtype), " B");
  };
  for (std::size_t step = 0; step < collective.schedule.size(); ++step) {
    const auto& [sends, receives, then, additions] = collective.schedule[step];
    for (std::size_t line = 0; line < std::max(sends.size(), receives.size()); ++line) {
      std::ostringstream row;
      row << std::setw(6) << (line == 0 ? std::to_string(step) : "") << "  " << std::left
          << std::setw(18) << column(sends, line, " -> ") << std::setw(18)
          << column(receives, line, " <- ");
      if (line == 0 && !receives.empty()) row << verb(then);
      std::string text = row.str();
      text.erase(text.find_last_not_of(' ') + 1);
      out << text << '\n';
    }
  }
  out_ << out.str() << std::flush;  // whole, since ranks may be threads
}

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
      for (const auto& [to, piece, node] : schedules[static_cast<std::size_t>(from)][step].sends) {
        const Step& there = schedules[static_cast<std::size_t>(to)][step];
        RINGLET_CHECK(std::ranges::count(there.receives, Transfer{from, piece, node}) == 1,
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

namespace {

/// The sum of `node`, by the definition in core/ops/sum_tree.h, before its parts.
void add_sums(LeafRange node, int depth, int size, int logical_ranks, std::vector<TreeSum>& sums) {
  TreeSum& sum = sums.emplace_back(TreeSum{node, depth});
  for (int rank = 0; rank < size; ++rank) {
    const LeafRange block = leaves_of_rank(rank, size, logical_ranks);
    if (block.begin <= node.begin && node.end <= block.end) sum.by = rank;
  }
  if (node.size() == 1) return;
  const int middle =
      node.begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(node.size() - 1)));
  add_sums({node.begin, middle}, depth + 1, size, logical_ranks, sums);
  add_sums({middle, node.end}, depth + 1, size, logical_ranks, sums);
}

}  // namespace

std::vector<TreeSum> tree_sums(int size, int logical_ranks) {
  std::vector<TreeSum> sums;
  add_sums({0, logical_ranks}, 0, size, logical_ranks, sums);
  return sums;
}

}  // namespace ringlet::comm
