// The ranks of a group as the peers of a batch.
#pragma once

#include <functional>

#include "ringlet/comm/group.h"
#include "ringlet/nn/batch_peers.h"

namespace ringlet::train {

/// The largest `n` of all ranks.
std::int64_t largest(const comm::Group& group, std::int64_t n);
/// Adds norm blocks over the ranks, of which one has a block and the others zeros: adding the bits
/// keeps it.
void add_blocks(const comm::Group& group, const Tensor& blocks);

class GroupPeers final : public nn::BatchPeers {
 public:
  explicit GroupPeers(comm::Group group)
      : GroupPeers([group = std::move(group)]() -> const comm::Group& { return group; }) {}
  /// `group` is called at each use, by the thread that uses it.
  explicit GroupPeers(std::function<const comm::Group&()> group) : group_(std::move(group)) {}

  int rank() const override { return group_().rank(); }
  int size() const override { return group_().size(); }
  std::vector<std::int64_t> all_gather_count(std::int64_t count) override;
  Tensor all_gather_rows(const Tensor& rows, std::span<const std::int64_t> counts) override;
  Tensor reduce_scatter_rows(Tensor all, std::span<const std::int64_t> counts) override;

 private:
  std::function<const comm::Group&()> group_;
};

}  // namespace ringlet::train
