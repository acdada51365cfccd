// What a Group's copies share: its transport and the queue of its collectives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "ringlet/comm/collectives.h"
#include "ringlet/comm/group.h"
#include "ringlet/comm/queue.h"

namespace ringlet::comm {

struct Work::State {
  std::shared_ptr<Queue> queue;
  std::shared_ptr<Task> task;
};

struct Group::State {
  Membership member;
  GroupOptions options;
  TransportKind asked_for;
  std::unique_ptr<Transport> transport;
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
  std::mutex calls;  // numbers calls in the order in which they are queued
  std::uint64_t sequence = 0;
  std::uint64_t bytes_sent = 0;
  int subgroups = 0;

  ~State() { queue->drain(); }

  Algorithm algorithm() const {
    return options.algorithm == Algorithm::automatic ? Algorithm::direct : options.algorithm;
  }
  Schedule schedule(Op op, int root) const;
  Collective plan(Op op, Tensor buffer, Pieces pieces, ReduceOp reduce = ReduceOp::sum,
                  int root = 0) const;
  void run(Collective& collective);
  void run_native(Collective& collective);

  /// What else is done on the thread that runs the collective.
  struct Around {
    std::function<void()> before;
    std::function<void()> after;
  };
  std::shared_ptr<Task> task(Collective collective, Around around);
  Work start(Collective collective, Around around = {});
  Work all_reduce(const Tensor& tensor, ReduceOp op, Around around = {});
  void run_now(Collective collective);
};

}  // namespace ringlet::comm
