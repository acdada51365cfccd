// A rank's part of a sum over more logical ranks than ranks (NodeSums).
#pragma once

#include <vector>

#include "ringlet/core/ops/sum_tree.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet::comm {

/// Adds the values (n) of a rank's logical ranks sequentially, by the tree of core/ops/sum_tree.h.
/// Earlier sums wait in buffers: at most log2 of the rank's logical ranks, or twice as many if
/// these are no node of the tree.
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
