// The state that copies of a Group share: its engines and the queue of its collectives.
#pragma once

#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/comm/engines.h"
#include "ringlet/comm/group_stream.h"
#include "ringlet/comm/queue.h"

namespace ringlet::comm {

struct NodeSums;

void check_tensor(Op op, const Tensor& tensor);
void check_reduction(Op op, ReduceOp reduce, DType dtype);
void check_root(Op op, int root, int size);
/// `part` is this rank's piece. `whole` is null where another rank has it.
void check_pieces(Op op, const Pieces& pieces, const Tensor* whole, const Tensor& part, int rank,
                  int size);

/// The tensors' bytes at `to`, one after another.
void pack_bytes(std::byte* to, const std::vector<Tensor>& tensors);

struct GroupState {
  /// `connects_late`: the first transfer makes the transports, on the thread that runs it.
  GroupState(Membership member, GroupOptions options, bool connects_late = false);
  ~GroupState();
  /// A group. Its end waits for work in flight. An exception does not wait, as it may be caught or
  /// raise the alarm: that work ends on a thread of `parent`; without one, the alarm is raised.
  static std::shared_ptr<GroupState> shared(Membership member, GroupOptions options,
                                            std::weak_ptr<GroupState> parent = {});
  bool is_idle() const;                                         // in its lanes and in `ending`, too
  bool end_later(std::unique_ptr<GroupState>& group) noexcept;  // false: no thread can be started
  /// The group in which `from` sends to `to`. Neither waits for the other here.
  GroupState& lane(int from, int to, int tag);

  // ---- from a call to its end

  /// Without `pieces`: even ones, as many as the schedule names.
  std::shared_ptr<Collective> plan(Op op, const Tensor& buffer, Pieces pieces = {},
                                   ReduceOp reduce = ReduceOp::sum, int root = 0) const;
  /// The sum of nodes, more than ranks.
  std::shared_ptr<Collective> plan_tree(Op op, const NodeSums& sums, Pieces pieces = {}) const;
  std::shared_ptr<Collective> plan(const Call& call, Schedule schedule, const Tensor& buffer,
                                   Pieces pieces, int logical_ranks = 0) const;
  /// For an op with a whole at the root and a part on each rank. `whole` is unused elsewhere.
  std::shared_ptr<Collective> plan_rooted(Op op, const Tensor& whole, const Tensor& part,
                                          const Pieces& pieces, int root) const;
  Work start(std::shared_ptr<Collective> collective);
  /// Starts a reduction; sums of bf16 and f16 in f32 if partial sums would be rounded.
  Work reduce(std::shared_ptr<Collective> collective);

  void enter(Collective& collective);
  void run(Collective& collective);
  /// Ends a failed collective: its tensors are released after the work that it has enqueued.
  void abandon(Collective& collective, const std::exception& error);
  Work all_reduce_wide(const Collective& narrow);
  Work reduce_scatter_wide(const Collective& narrow);
  GroupStats stats() const;

  void check_ready_for_capture(Collective& collective);
  void order_replays(Device device);

  Membership member;
  GroupOptions options;
  Engines engines;
  std::map<Device, GroupStream> streams;
  std::shared_ptr<DeviceClock> running, waited;  // null unless options.timed

  const bool connects_late;
  std::map<std::vector<int>, std::unique_ptr<GroupState>> lanes;  // sender, receiver, tag
  mutable std::mutex calls;  // numbers calls in the order in which they are queued
  std::uint64_t sequence = 0;
  std::uint64_t bytes_sent = 0;
  int subgroups = 0;
  const int exceptions = std::uncaught_exceptions();
  std::vector<std::future<void>> ending;        // subgroups
  std::shared_ptr<std::uint64_t> replay_bytes;  // that a replay of the graph being captured sends
  std::shared_ptr<Queue> queue =
      std::make_shared<Queue>([this](Collective& collective) { run(collective); });
};

}  // namespace ringlet::comm
