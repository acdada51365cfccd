// Group: ranks that work together, as a value. A group of one returns immediately from all calls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/comm/types.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet::comm {

struct NodeSums;

class Group {
 public:
  Group();  // a world of one
  /// All ranks call it with the same store, size and options; `id` separates groups in one store.
  /// `names`: the ranks' numbers in messages; empty: as they are.
  Group(std::shared_ptr<Store> store, int rank, int size, GroupOptions options = {},
        const std::string& id = "world", const std::vector<int>& names = {});

  int rank() const;
  int size() const;
  const GroupOptions& options() const;
  /// The transport of tensors on `device`.
  TransportKind transport(Device device) const;
  /// The algorithm of the next all-reduce there. The first all-reduce, reduce-scatter or all-gather
  /// of tensors on GPUs decides what `automatic` is.
  Algorithm algorithm(Device device) const;
  GroupStats stats() const;

  // Tensors lie on a CPU or on the rank's GPU; in one collective all of them on GPUs or none. Ranks
  // that are threads of one process may share a GPU. A graph that captured collectives, which must
  // be over nccl or one launch, must be destroyed before the group. All ranks must call the same
  // collectives in the same order with equal dtype, sizes and pieces. Tensors are written when the
  // Work is done and must not be touched before; they may be read if the call only sends them. Sums
  // of bf16 and f16 are added in f32 and rounded once. Under `direct` each element is added by a
  // fixed tree over the ranks (core/ops/sum_tree.h): its bits depend only on the ranks' values.
  // Under `ring` they also depend on its position; partial sums of bf16 and f16 travel as f32, in
  // twice the bytes. A call that differs, or a rank that times out or has exited: Error, on all
  // ranks.

  /// In place.
  Work all_reduce(Tensor tensor, ReduceOp op = ReduceOp::sum) const;
  /// Reduces several tensors of one dtype as one: small ones cost one latency. If they are not
  /// contiguous, they are copied through a buffer of their total size.
  Work all_reduce(std::vector<Tensor> tensors, ReduceOp op = ReduceOp::sum) const;
  /// nodes[0] = the sum over all logical ranks (comm/logical_sum.h). Not of bf16 and f16, which
  /// would be rounded on the way; by direct alone, unless there are as many logical ranks as ranks.
  Work all_reduce(const NodeSums& sums) const;
  /// output (pieces[rank].count) = the reduction of that piece of every rank's `input`; output may
  /// be that piece of input itself. `ring` uses input as its scratch.
  Work reduce_scatter(Tensor output, Tensor input, const Pieces& pieces,
                      ReduceOp op = ReduceOp::sum) const;
  /// The same of nodes; output may be that piece of nodes[0].
  Work reduce_scatter(Tensor output, const NodeSums& sums, const Pieces& pieces) const;
  /// pieces[p] of output = rank p's `input` (pieces[p].count); input may be that piece of output.
  Work all_gather(Tensor output, Tensor input, const Pieces& pieces) const;
  Work broadcast(Tensor tensor, int root = 0) const;
  /// At the root, pieces[p] of output = rank p's `input` (pieces[p].count). Elsewhere output is
  /// not used.
  Work gather(Tensor output, Tensor input, const Pieces& pieces, int root = 0) const;
  /// output (pieces[rank].count) = that piece of the root's `input`. Elsewhere input is not used.
  Work scatter(Tensor output, Tensor input, const Pieces& pieces, int root = 0) const;
  /// output (size, pieces[rank].count): row p = that piece of rank p's `input`.
  Work all_to_all(Tensor output, Tensor input, const Pieces& pieces) const;

  // Between two ranks, and not ordered with the collectives. The n-th send of a tag to a peer meets
  // the peer's n-th recv of the tag from this rank, of equal dtype and size. Either may come first.
  // Transfers of other peers, tags and of the other direction go on meanwhile. They cannot be
  // captured. Before the first one, only the timeout detects a peer that has left.
  Work send(Tensor tensor, int peer, int tag = 0) const;
  Work recv(Tensor tensor, int peer, int tag = 0) const;
  /// A peer that has started a send of the tag to this rank; none while no send is pending. Peers
  /// with a recv in flight here are left out. For ranks of one host.
  std::optional<int> sender(int tag = 0) const;
  /// Also orders this thread's later work on a device after the group's collectives there.
  void barrier() const;
  /// The same for CPUs, without waiting.
  Work start_barrier() const;
  /// Gathers a few bytes of every rank, of any length, in rank order.
  std::vector<std::string> all_gather_bytes(const std::string& bytes) const;

  /// The ranks of this group named in `ranks` (ascending), as a group. Every rank of this group
  /// calls it; a rank that is not named gets a group of one.
  Group subgroup(const std::vector<int>& ranks) const;
  /// The same with separate options.
  Group subgroup(const std::vector<int>& ranks, GroupOptions options) const;

  Store& store() const;

 private:
  Work transfer(Tensor tensor, int from, int to, int tag) const;

  std::shared_ptr<GroupState> state_;
};

}  // namespace ringlet::comm
