// The order of sums over ranks: a fixed tree over the leaves [0, L).
//
//   sum(begin, end) = sum(begin, middle) + sum(middle, end)
//   middle          = begin + the largest power of two below end - begin
//
// The bits of a sum depend on the leaves' values and their number, not on the rank that adds a
// node. A tree is added from left to right with a stack: after each leaf come additions of the top
// two.
//
//   leaves 0 to 4 of 5       0 1 + 2 3 + + 4 +
//   on ranks with 2 and 3    the first sends 0-1; the second 2-3 and 4
#pragma once

#include <vector>

#include "ringlet/core/base/host_device.h"

namespace ringlet {

/// Leaves [begin, end): a node of the tree, or the block of a rank.
struct LeafRange {
  int begin = 0;
  int end = 0;
  constexpr int size() const { return end - begin; }
  bool operator==(const LeafRange&) const = default;
};

/// The additions that follow a leaf of a tree over `leaves`.
RINGLET_HOST_DEVICE constexpr int additions_after(int leaf, int leaves) {
  int additions = 0;
  if (leaf + 1 == leaves) {
    for (int rest = leaf; rest != 0; rest &= rest - 1) ++additions;  // all that wait
  } else {
    for (int rest = leaf; rest % 2 != 0; rest /= 2) ++additions;  // its nodes that end here
  }
  return additions;
}

/// The additions that follow a node, once its leaves are added.
constexpr int additions_after(LeafRange node, int leaves) {
  return additions_after(node.end - 1, leaves) - additions_after(node.size() - 1, node.size());
}

/// The leaves of rank `rank` of `ranks`, near-equal contiguous blocks.
constexpr LeafRange leaves_of_rank(int rank, int ranks, int leaves) {
  const auto edge = [&](int r) {
    return static_cast<int>(static_cast<long long>(r) * leaves / ranks);
  };
  return {edge(rank), edge(rank + 1)};
}

/// The maximal nodes of the tree over `leaves` that lie in `block`, in order. A node's leaves are
/// added as a tree of their own, from its first leaf.
inline std::vector<LeafRange> nodes_of_block(LeafRange block, int leaves) {
  std::vector<LeafRange> nodes;
  const auto visit = [&](const auto& self, LeafRange node) -> void {
    if (node.end <= block.begin || block.end <= node.begin) return;
    if (block.begin <= node.begin && node.end <= block.end) return nodes.push_back(node);
    int half = 1;
    while (2 * half < node.size()) half *= 2;
    self(self, {node.begin, node.begin + half});
    self(self, {node.begin + half, node.end});
  };
  visit(visit, {0, leaves});
  return nodes;
}

}  // namespace ringlet
