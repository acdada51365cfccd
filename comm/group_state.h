// What a Group's copies share: its transport and the queue of its collectives.
//
// On a device a collective is work of the group's own stream there, between two events: it begins
// behind what the caller's stream was given before the call, and what that is given after wait()
// runs behind it. The queue only gives the device its work; nobody waits for it on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/comm/collectives.h"
#include "ringlet/comm/device_clock.h"
#include "ringlet/comm/group.h"
#include "ringlet/comm/queue.h"
#include "ringlet/core/device_ranks.h"

namespace ringlet::comm {

struct Work::State {
  std::shared_ptr<Queue> queue;
  std::shared_ptr<Task> task;
  std::shared_ptr<Event> end;           // recorded when the task is done
  std::shared_ptr<DeviceClock> waited;  // null: nobody asks
  /// Of a captured collective, until a stream has waited for it: no event of a capture says when
  /// their memory is free.
  std::vector<Tensor> tensors = {};
};

/// A group's stream on a device, and where its latest collective ends there.
struct Line {
  explicit Line(Device device);
  std::uint64_t id;  // no other line of the process has it
  Stream stream;
  std::shared_ptr<Event> end;
  std::unique_ptr<DeviceRanks> ranks;  // rank 0's; null before the first collective of theirs
};

/// What else is done on the thread that runs a collective, and the tensors of that.
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

struct Group::State {
  Membership member;
  GroupOptions options;
  TransportKind asked_for = TransportKind::automatic;
  TransportKind host_kind = TransportKind::automatic;
  std::unique_ptr<Transport>
      transport;                    // of tensors on a CPU, and where host_kind is thread of all
  std::unique_ptr<Transport> nccl;  // of those on GPUs, unless null; uses the other
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
  std::mutex calls;  // numbers calls in the order in which they are queued
  std::uint64_t sequence = 0;
  std::uint64_t bytes_sent = 0;
  int subgroups = 0;
  std::map<Device, Line> lines;
  std::shared_ptr<DeviceClock> running, waited;  // null unless options.timed
  std::vector<Prepared>* gathered = nullptr;     // for together(): takes what is called

  /// Peers learn over the host's transport that this rank has left. A communicator's end may take
  /// until they leave, too.
  ~State() {
    queue->drain();
    if (nccl) transport.reset();
  }

  Algorithm algorithm(Op op, Device device) const;
  bool uses_nccl(Device device) const { return nccl && device.type != DeviceType::cpu; }
  Transport& transport_of(Device device) { return uses_nccl(device) ? *nccl : *transport; }
  Schedule schedule(Op op, int root, Device device) const;
  Collective plan(Op op, Tensor buffer, Pieces pieces, ReduceOp reduce = ReduceOp::sum,
                  int root = 0) const;
  std::int64_t segments(Device device, std::int64_t longest_bytes) const;
  void run(const Collective& collective, const Stream& stream);
  void run_native(const Collective& collective);
  void run_task(const Prepared& prepared);
  void begin_task(const Prepared& prepared);
  void end_task(const Prepared& prepared);
  /// Of a task that failed: its tensors go behind what it has given the device.
  void fail_task(const Prepared& prepared, const std::exception& error);
  Line& line(Device device);
  DeviceRanks& ranks(Line& line, Device device) const;

  Prepared prepare(Collective collective, Around around);
  Work::State task(Prepared prepared);
  void raise(const std::exception& error);
  Work start(Collective collective, Around around = {});
  Work all_reduce(const Tensor& tensor, ReduceOp op, Around around = {});
  void run_now(Collective collective);

  struct ReplaysInLine;
  bool replays_in_line = false;  // of the graph that is captured
  void check_ready_for_capture(const Collective& collective);
  void keep_replays_in_line(Device device);
  void run_here(Task& task);
};

}  // namespace ringlet::comm
