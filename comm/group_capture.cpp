// Collectives of a group over nccl in a graph: the rank's own thread gives them to the device, and
// replays take their turn with those that are not captured.
#include "ringlet/comm/group_state.h"
#include "ringlet/core/error.h"
#include "ringlet/core/graph.h"

namespace ringlet::comm {

/// Ranks must give NCCL one order, and what a graph receives lies in the slots of all others: a
/// replay waits for what was called before, on the host and on the device. Goes, with its graph,
/// before the group.
struct Group::State::ReplaysInLine final : ReplayObserver {
  ReplaysInLine(State& group, Device device) : group(group), device(device) {}
  void begin_replay() override {
    const std::lock_guard lock(group.calls);
    group.queue->wait_for_all();
    group.line(device).end->make_wait();
  }
  void end_replay() override {}
  State& group;
  Device device;
};

// Before anything is counted: no rank has come to the collective, and the group can go on.
void Group::State::check_ready_for_capture(const Collective& collective) {
  queue->wait_for_all();
  RINGLET_CHECK(nccl->is_ready_for_capture(), "[", name(collective.call.op),
                "] the group's first collective of tensors on a GPU makes its communicator, which "
                "cannot be captured: run one before the capture");
}

// Before the collective observes them itself: its time begins when its turn has come.
void Group::State::keep_replays_in_line(Device device) {
  if (replays_in_line) return;
  replays_in_line = true;
  observe_replays(std::make_shared<ReplaysInLine>(*this, device));
  run_after_capture([this] { replays_in_line = false; });
}

// What is captured is given to the device by the thread that captures.
void Group::State::run_here(Task& task) {
  task.run();
  task.run = nullptr;
  task.done = true;
}

}  // namespace ringlet::comm
