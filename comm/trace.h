// Views of schedules: a rank's part of each collective as a table, and all ranks' transfers
// together.
#pragma once

#include <iosfwd>
#include <vector>

#include "ringlet/comm/observer.h"
#include "ringlet/comm/schedule.h"
#include "ringlet/core/ops/sum_tree.h"

namespace ringlet::comm {

/// Prints one line per step and peer of each collective: the pieces sent and received, with their
/// bytes, and the use of the received ones.
class TracePrinter final : public CollectiveObserver {
 public:
  explicit TracePrinter(std::ostream& out) : out_(out) {}
  void begins(const Collective& collective, const Membership& rank) override;

 private:
  std::ostream& out_;
};

struct Move {
  int step = 0;
  int from = 0;
  int to = 0;
  int piece = 0;
  Then then = Then::copy;  // done by the receiver
  /// After the step the receiver's piece is the sum over these ranks, ascending.
  std::vector<int> sum = {};
};

/// Every transfer of make_schedule's steps on `size` ranks, by step and then by sender. Each rank
/// begins with its own values of every piece. Error if a send has no receive, or if a rank's values
/// would be added twice.
std::vector<Move> all_moves(Op op, Algorithm algorithm, int size);

/// A sum of the tree over logical ranks, or a leaf.
struct TreeSum {
  LeafRange leaves;
  int depth = 0;  // 0: the root
  int by = -1;    // the rank that adds it, or has the leaf; -1: each piece's owner
};

/// Every sum that `size` ranks make, each before its two parts.
std::vector<TreeSum> tree_sums(int size, int logical_ranks);

}  // namespace ringlet::comm
