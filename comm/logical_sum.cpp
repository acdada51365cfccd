#include "ringlet/comm/logical_sum.h"

#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/elementwise.h"

namespace ringlet::comm {

LogicalSum::LogicalSum(LeafRange block, int leaves) {
  for (const LeafRange node : nodes_of_block(block, leaves))
    for (int leaf = 0; leaf < node.size(); ++leaf)
      additions_.push_back(additions_after(leaf, node.size()));
}

Tensor LogicalSum::add(Tensor values) {
  RINGLET_CHECK(added_ + 1 < additions_.size(), "[logical ranks] this rank has ", additions_.size(),
                " of a step, and another one has ended");
  const std::size_t kept = waiting_ - static_cast<std::size_t>(additions_[added_++]);
  while (waiting_ > kept) axpby(values, 1, sums_[--waiting_], 1);
  if (waiting_ == sums_.size()) {
    sums_.push_back(values.clone());
  } else {
    sums_[waiting_].copy_(values);
  }
  return sums_[waiting_++];
}

std::vector<Tensor> LogicalSum::nodes(Tensor values, std::int64_t begin) const {
  RINGLET_CHECK(added_ + 1 == additions_.size(), "[logical ranks] this rank has ",
                additions_.size(), " of a step, not ", added_ + 1);
  const std::int64_t end = begin + values.numel();
  const std::size_t kept = waiting_ - static_cast<std::size_t>(additions_[added_]);
  for (std::size_t i = waiting_; i-- > kept;) axpby(values, 1, sums_[i].slice(begin, end), 1);
  std::vector<Tensor> nodes;
  for (std::size_t i = 0; i < kept; ++i) nodes.push_back(sums_[i].slice(begin, end));
  nodes.push_back(std::move(values));
  return nodes;
}

}  // namespace ringlet::comm
