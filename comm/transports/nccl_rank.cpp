#include "ringlet/comm/transports/nccl_rank.h"

#include "ringlet/comm/transports/nccl_gpus.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"

namespace ringlet::comm {

/// The collectives that were captured in one graph, as its replays are watched. Goes, with its
/// graph, before the group.
class NcclReplays final : public ReplayObserver {
 public:
  NcclReplays(const Membership& membership, NcclWatchdog& watchdog, Device device,
              const Call& first)
      : membership_(membership), watchdog_(watchdog), device_(device), first_(first) {}
  void add_one() { ++count_; }

  /// Throws what ended the group: its communicator is gone then.
  void begin_replay() override {
    membership_.check_alarm();
    begun_ = std::make_shared<StreamEvent>(device_);
    begun_->record();
  }
  void end_replay() override {
    const auto ended = std::make_shared<StreamEvent>(device_);
    ended->record();
    watchdog_.watch(first_, std::move(begun_), ended, count_);
  }

 private:
  const Membership& membership_;
  NcclWatchdog& watchdog_;
  Device device_;
  Call first_;
  int count_ = 0;
  std::shared_ptr<const StreamEvent> begun_;
};

NcclRank::NcclRank(const Membership& membership, Transport& host)
    : membership_(membership), host_(make_schedule_engine(host, membership.rank, membership.size)) {
  barrier_.schedule =
      make_schedule(Op::barrier, Algorithm::direct, membership.rank, membership.size);
  barrier_.pieces = Pieces(1);
  barrier_.buffer = empty({0}, DType::u8, Device{});
}

void NcclRank::enter(const Call& call, Device device) {
  call_ = call;
  RINGLET_CHECK(!communicator_ || device == device_, "[", name(call.op), "] of a tensor on ",
                device, " in a group whose tensors are on ", device_);
  barrier();
  if (!communicator_) {
    check_gpus(membership_, gpu_place(device));
    device_ = device;
    communicator_.emplace(membership_, device);
    barrier();  // NCCL's kernels must not wait on a GPU where another rank still makes its part
    watchdog_.emplace(membership_, *communicator_);
  }
  begun_ =
      backend(device.type).is_captured(device) ? nullptr : std::make_shared<StreamEvent>(device);
  if (!begun_) return note_captured();
  begun_->record();
}

// It runs later, any number of times, each of which is watched.
void NcclRank::note_captured() {
  if (!captured_) {
    captured_ = std::make_shared<NcclReplays>(membership_, *watchdog_, device_, call_);
    observe_replays(captured_);
    run_after_capture([this] { captured_.reset(); });
  }
  captured_->add_one();
}

// Empty messages carry the call, and a rank hears from its neighbour: where neighbours agree, all
// do.
void NcclRank::barrier() {
  barrier_.call = call_;
  host_->execute(barrier_);
}

void NcclRank::group(const NcclCommunicator::Calls& calls) {
  communicator_->group(describe_collective(call_), calls);
}

void NcclRank::leave() {
  if (!begun_) return;
  const auto ended = std::make_shared<StreamEvent>(device_);
  ended->record();
  watchdog_->watch(call_, std::move(begun_), ended);
}

}  // namespace ringlet::comm
