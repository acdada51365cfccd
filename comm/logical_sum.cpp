#include "ringlet/comm/logical_sum.h"

#include <algorithm>
#include <utility>

#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/elementwise.h"

namespace ringlet::comm {
namespace {

constexpr int kMostLogicalRanks = 1 << 16;

void check_nodes(Op op, const NodeSums& sums, int rank, int size) {
  const auto& [nodes, logical_ranks] = sums;
  RINGLET_CHECK(size <= logical_ranks && logical_ranks <= kMostLogicalRanks, "[", name(op), "] ",
                logical_ranks, " logical ranks on ", size);
  RINGLET_CHECK_EQ(nodes.size(), nodes_of_rank(rank, size, logical_ranks).size(), "[", name(op),
                   "] nodes of rank ", rank);
  for (const Tensor& node : nodes) {
    check_tensor(op, node);
    check_same_device(std::string(name(op)).c_str(), nodes.front(), node);
    RINGLET_CHECK(node.shape() == nodes.front().shape() && node.dtype() == nodes.front().dtype(),
                  "[", name(op), "] nodes of different shapes or dtypes");
  }
}

/// All of them in one buffer, and where each begins there; null if they lie in several storages.
Tensor spanning(const std::vector<Tensor>& nodes, std::vector<std::int64_t>& begins) {
  const auto offset = [](const Tensor& node) { return node.storage_offset(); };
  const auto [first, last] = std::ranges::minmax(nodes, {}, offset);
  for (const Tensor& node : nodes)
    if (node.storage() != first.storage()) return {};
  const std::size_t size = itemsize(first.dtype()), begin = offset(first);
  for (const Tensor& node : nodes)
    begins.push_back(static_cast<std::int64_t>((offset(node) - begin) / size));
  const auto nbytes = offset(last) - begin + last.nbytes();
  return Tensor(first.storage(), begin, {static_cast<std::int64_t>(nbytes / size)}, first.dtype());
}

// After each node of the ranks, in order; none if the nodes are added like leaves.
std::vector<std::uint8_t> additions_of_nodes(int size, int leaves) {
  std::vector<std::uint8_t> additions, of_leaves;
  for (int rank = 0; rank < size; ++rank)
    for (const LeafRange node : nodes_of_rank(rank, size, leaves))
      additions.push_back(static_cast<std::uint8_t>(additions_after(node, leaves)));
  const int count = static_cast<int>(additions.size());
  for (int leaf = 0; leaf < count; ++leaf)
    of_leaves.push_back(static_cast<std::uint8_t>(additions_after(leaf, count)));
  if (additions == of_leaves) additions.clear();
  return additions;
}

}  // namespace

// The direct schedule, with a transfer for each of the sender's nodes.
Schedule make_tree_schedule(Op op, int rank, int size, int logical_ranks) {
  Schedule schedule = make_schedule(op, Algorithm::direct, rank, size);
  if (logical_ranks == size) return schedule;
  Step& sum = schedule.front();
  sum.additions = additions_of_nodes(size, logical_ranks);
  for (std::vector<Transfer>* transfers : {&sum.sends, &sum.receives})
    for (const Transfer& one : std::exchange(*transfers, {})) {
      const int sender = transfers == &sum.sends ? rank : one.peer;
      const auto nodes = static_cast<int>(nodes_of_rank(sender, size, logical_ranks).size());
      for (int node = 0; node < nodes; ++node) transfers->push_back({one.peer, one.piece, node});
    }
  return schedule;
}

std::vector<LeafRange> nodes_of_rank(int rank, int size, int logical_ranks) {
  return nodes_of_block(leaves_of_rank(rank, size, logical_ranks), logical_ranks);
}

std::shared_ptr<Collective> GroupState::plan_tree(Op op, const NodeSums& sums,
                                                  Pieces pieces) const {
  const std::vector<Tensor>& nodes = sums.nodes;
  const int logical_ranks = sums.logical_ranks;
  const Tensor first = nodes.front();
  const DType dtype = first.dtype();
  if (const Algorithm given = engines.algorithm(op, first.device());
      given != Algorithm::direct && given != Algorithm::in_kernel_direct &&
      given != Algorithm::automatic)
    fail_input("[group] ", logical_ranks, " logical ranks on ", member.size,
               " are summed by a tree: choose direct, not ", name(given));
  RINGLET_CHECK(dtype != DType::bf16 && dtype != DType::f16, "[", name(op), "] of ", logical_ranks,
                " logical ranks on ", member.size, ": partial sums of ", dtype,
                " are rounded; bring f32");
  std::vector<std::int64_t> begins;
  Tensor buffer = spanning(nodes, begins);
  const bool in_place = buffer.defined();
  if (!in_place) {
    begins.clear();
    for (std::size_t i = 0; i < nodes.size(); ++i)
      begins.push_back(static_cast<std::int64_t>(i) * first.numel());
    buffer = empty({std::ssize(nodes) * first.numel()}, dtype, first.device());
  }
  auto collective =
      plan({.count = first.numel(), .op = op, .dtype = dtype, .algorithm = Algorithm::direct},
           make_tree_schedule(op, member.rank, member.size, logical_ranks), buffer,
           std::move(pieces), logical_ranks);
  collective->nodes = std::move(begins);
  collective->tensors = nodes;
  if (in_place) return collective;
  collective->before = [buffer, nodes] { pack_bytes(announced_bytes(buffer), nodes); };
  if (op == Op::all_reduce)
    collective->after = [buffer, first] {
      copy_bytes(first.device(), announced_bytes(first), buffer.bytes(), first.nbytes());
    };
  return collective;
}

Work Group::all_reduce(const NodeSums& sums) const {
  check_nodes(Op::all_reduce, sums, rank(), size());
  Tensor first = sums.nodes.front();
  if (size() == 1) return {};
  if (sums.logical_ranks == size()) return all_reduce(first);
  first.mutable_bytes();
  return state_->start(state_->plan_tree(Op::all_reduce, sums));
}

Work Group::reduce_scatter(Tensor output, const NodeSums& sums, const Pieces& pieces) const {
  check_nodes(Op::reduce_scatter, sums, rank(), size());
  const Tensor& first = sums.nodes.front();
  if (size() == 1 || sums.logical_ranks == size()) return reduce_scatter(output, first, pieces);
  check_pieces(Op::reduce_scatter, pieces, &first, output, rank(), size());
  output.mutable_bytes();
  auto collective = state_->plan_tree(Op::reduce_scatter, sums, pieces);
  collective->own = output;
  return state_->start(std::move(collective));
}

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
