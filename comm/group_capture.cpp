// Captures a group's collectives in a graph. The rank's own thread enqueues them, and replays are
// ordered with the collectives that are not captured.
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"

namespace ringlet::comm {

namespace {

/// Orders a replay after all earlier collectives, on the host and on the device. All ranks must
/// call NCCL in one order, and a graph receives into the same slots as other collectives.
/// Destroyed, with its graph, before the group.
struct ReplaysInLine final : ReplayObserver {
  ReplaysInLine(GroupState& group, Device device, std::shared_ptr<const std::uint64_t> sends)
      : group(group), device(device), sends(std::move(sends)) {}
  // Throws what ended the group: peers may be gone then.
  void begin_replay() override {
    group.member.check_alarm();
    const std::lock_guard lock(group.calls);
    group.queue->wait_for_all();
    group.streams.at(device).end->make_wait();
    group.bytes_sent += *sends;
  }
  // Launches that wait for those of peers come after a meeting: a driver might make a peer's host
  // wait for them. No observer sees the wait, as one could allocate.
  void meet() override {
    if (group.engines.uses_nccl(device)) return;
    const CallerRuns here;
    const auto barrier = group.plan(Op::barrier, empty({0}, DType::u8, Device{}));
    group.start(barrier);
    group.queue->wait(*barrier, /*observed=*/false);
  }
  void end_replay() override {}
  // Peers wait for this rank, or have launched their parts.
  void replay_failed(const std::exception& error) override {
    if (group.engines.uses_nccl(device)) return;
    group.member.store->raise(of_rank(group.member.me(), error.what()));
    group.engines.in_kernel->abandon();
  }
  GroupState& group;
  Device device;
  std::shared_ptr<const std::uint64_t> sends;  // bytes
};

}  // namespace

void Engine::check_capturable(const Collective& collective) {
  fail("[", name(collective.call.op),
       "] only collectives over nccl and of one launch (in-kernel algorithms) can be captured");
}

// Runs before anything is counted: no rank has come to the collective, and the group stays usable.
void GroupState::check_ready_for_capture(Collective& collective) {
  queue->wait_for_all();
  engines.choose(collective);
  if (!engines.uses_nccl(collective.buffer.device()))
    return collective.engine->check_capturable(collective);
  RINGLET_CHECK(engines.nccl->is_ready_for_capture(), "[", name(collective.call.op),
                "] the group's first collective of tensors on a GPU makes its communicator, which "
                "cannot be captured: run one before the capture");
}

// Registered before the collective's own observer, which records the replay's begin after this
// wait.
void GroupState::order_replays(Device device) {
  if (replay_bytes) return;
  replay_bytes = std::make_shared<std::uint64_t>(0);
  observe_replays(std::make_shared<ReplaysInLine>(*this, device, replay_bytes));
  run_after_capture([this] { replay_bytes.reset(); });
}

}  // namespace ringlet::comm
