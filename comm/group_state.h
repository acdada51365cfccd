// The state that copies of a Group share: its transport and the queue of its collectives.
//
// On a device, a collective runs on the group's own stream, between two events. It is ordered after
// the caller's stream work from before the call; the stream's work after wait() is ordered after
// it. The queue only enqueues the work: no host thread waits for its completion.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/comm/collectives.h"
#include "ringlet/comm/device_clock.h"
#include "ringlet/comm/queue.h"
#include "ringlet/core/device_objects.h"

namespace ringlet::comm {

struct WorkState {
  std::shared_ptr<Queue> queue;
  std::shared_ptr<Task> task;
  std::shared_ptr<Event> end;           // recorded when the task is done
  std::shared_ptr<DeviceClock> waited;  // null: not timed
  /// For a captured collective: its tensors, until a stream has waited for it. No event of a
  /// capture says when their memory is free.
  std::vector<Tensor> tensors = {};
};

/// A group's stream on a device, and the end of its latest collective there.
struct Line {
  explicit Line(Device device);
  std::uint64_t id;  // unique among the lines of the process
  Stream stream;
  std::shared_ptr<Event> end;
  std::unique_ptr<DeviceRanks> ranks;  // in rank 0; null before its first collective in one launch
};

/// Callbacks on the thread that runs a collective, and the tensors that they use.
struct Around {
  std::function<void()> before = {};
  std::function<void()> after = {};
  std::vector<Tensor> tensors = {};
};

/// A collective as it was called, ready to be run.
struct Prepared {
  Collective collective;
  Around around;
  const Stream* stream;
  std::shared_ptr<Event> begin;  // recorded
  std::shared_ptr<Event> end;    // to be recorded
};

/// Runs the parts of a collective by the engine of its algorithm: a schedule over the transport,
/// one launch, or the transport's own engine.
void run_collective(std::span<const RankPart> parts);

void check_tensor(Op op, const Tensor& tensor);
void check_reduction(Op op, ReduceOp reduce, DType dtype);

struct GroupState {
  Membership member;
  GroupOptions options;
  TransportKind asked_for = TransportKind::automatic;
  TransportKind host_kind = TransportKind::automatic;
  std::unique_ptr<Transport>
      transport;                    // for CPU tensors, and for all tensors if host_kind is thread
  std::unique_ptr<Transport> nccl;  // for tensors on GPUs, unless null; uses `transport`
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
  std::mutex calls;  // numbers calls in the order in which they are queued
  std::uint64_t sequence = 0;
  std::uint64_t bytes_sent = 0;
  int subgroups = 0;
  std::map<Device, Line> lines;
  std::shared_ptr<DeviceClock> running, waited;  // null unless options.timed
  std::vector<Prepared>* gathered = nullptr;     // set by together(): receives the calls

  /// Peers learn over the host's transport that this rank has left. A communicator's end may take
  /// until they leave, too.
  ~GroupState() {
    queue->drain();
    if (nccl) transport.reset();
  }

  Algorithm algorithm(Op op, Device device) const;
  bool uses_nccl(Device device) const { return nccl && device.type != DeviceType::cpu; }
  Transport& transport_of(Device device) { return uses_nccl(device) ? *nccl : *transport; }
  Collective plan(Op op, Tensor buffer, Pieces pieces, ReduceOp reduce = ReduceOp::sum,
                  int root = 0) const;
  std::int64_t segments(Device device, std::int64_t longest_bytes) const;
  void run(const Collective& collective, const Stream& stream);
  void run_task(const Prepared& prepared);
  void begin_task(const Prepared& prepared);
  void end_task(const Prepared& prepared);
  /// Ends a failed task: its tensors are released after the work that it has enqueued.
  void fail_task(const Prepared& prepared, const std::exception& error);
  Line& line(Device device);
  DeviceRanks& ranks(Line& line, Device device) const;

  Prepared prepare(Collective collective, Around around);
  WorkState task(Prepared prepared);
  void raise(const std::exception& error);
  std::shared_ptr<WorkState> start(Collective collective, Around around = {});
  std::shared_ptr<WorkState> all_reduce(const Tensor& tensor, ReduceOp op, Around around = {});
  void run_now(Collective collective);
  /// Whether partial sums travel in f32, because the dtype would round them.
  bool travels_wide(Op op, const Tensor& tensor, ReduceOp reduce) const;
  std::shared_ptr<WorkState> all_reduce_wide(const Tensor& tensor, ReduceOp op,
                                             const Pieces& pieces, Around around);
  std::shared_ptr<WorkState> reduce_scatter_wide(const Tensor& output, const Tensor& input,
                                                 ReduceOp op, const Pieces& pieces);

  struct ReplaysInLine;
  bool replays_in_line = false;  // whether the graph being captured has one
  void check_ready_for_capture(const Collective& collective);
  void order_replays(Device device);
  void run_here(Task& task);
};

}  // namespace ringlet::comm
