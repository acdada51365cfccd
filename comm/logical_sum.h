// Sums over more logical ranks than ranks, by the tree of core/ops/sum_tree.h.
#pragma once

#include <vector>

#include "ringlet/comm/schedule.h"
#include "ringlet/core/ops/sum_tree.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet::comm {

/// A rank's part of a sum over logical ranks, at least as many as ranks. The result has the same
/// bits on any number of ranks.
struct NodeSums {
  /// The sums of the rank's nodes of the tree, in order: nodes_of_rank. All of one shape; those of
  /// one storage are sent in place, others are copied first.
  std::vector<Tensor> nodes;
  int logical_ranks;
};

/// The schedule of a reduction over `logical_ranks`, at least as many as ranks: by direct.
Schedule make_tree_schedule(Op op, int rank, int size, int logical_ranks);
/// The nodes of the logical ranks' tree that rank `rank` brings.
std::vector<LeafRange> nodes_of_rank(int rank, int size, int logical_ranks);

/// Adds the values (n) of a rank's logical ranks sequentially, by the tree. Earlier sums wait in
/// buffers: at most log2 of the rank's logical ranks, or twice as many if these are no node of it.
class LogicalSum {
 public:
  LogicalSum() = default;
  /// The leaves `block` of a tree over `leaves`.
  LogicalSum(LeafRange block, int leaves);
  /// Adds the values of a logical rank that is not the last; they may be overwritten. The tensor
  /// that waits from now on: the sum of the latest node.
  Tensor add(Tensor values);
  /// The sums of this device's nodes for elements [begin, begin + n), in the tree's order.
  /// `values` (n) are those of the last logical rank, and become the last node's.
  std::vector<Tensor> nodes(Tensor values, std::int64_t begin = 0) const;
  /// The logical ranks since clear() that were added.
  int added() const { return static_cast<int>(added_); }
  /// The next logical rank is the first.
  void clear() { added_ = waiting_ = 0; }

 private:
  std::vector<int> additions_;  // after each leaf of the block
  std::vector<Tensor> sums_;    // the first `waiting_` are in use
  std::size_t added_ = 0, waiting_ = 0;
};

}  // namespace ringlet::comm
