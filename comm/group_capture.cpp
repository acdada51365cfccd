// Captures a group's collectives over nccl in a graph. The rank's own thread enqueues them, and
// replays are ordered with the collectives that are not captured.
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"

namespace ringlet::comm {

/// Orders a replay after all earlier collectives, on the host and on the device. All ranks must
/// call NCCL in one order, and a graph receives into the same slots as other collectives.
/// Destroyed, with its graph, before the group.
struct GroupState::ReplaysInLine final : ReplayObserver {
  ReplaysInLine(GroupState& group, Device device) : group(group), device(device) {}
  void begin_replay() override {
    const std::lock_guard lock(group.calls);
    group.queue->wait_for_all();
    group.streams.at(device).end->make_wait();
  }
  void end_replay() override {}
  GroupState& group;
  Device device;
};

// Runs before anything is counted: no rank has come to the collective, and the group stays usable.
void GroupState::check_ready_for_capture(const Collective& collective) {
  queue->wait_for_all();
  RINGLET_CHECK(nccl->is_ready_for_capture(), "[", name(collective.call.op),
                "] the group's first collective of tensors on a GPU makes its communicator, which "
                "cannot be captured: run one before the capture");
}

// Registered before the collective's own observer, which records the replay's begin after this
// wait.
void GroupState::order_replays(Device device) {
  if (replays_in_line) return;
  replays_in_line = true;
  observe_replays(std::make_shared<ReplaysInLine>(*this, device));
  run_after_capture([this] { replays_in_line = false; });
}

}  // namespace ringlet::comm
