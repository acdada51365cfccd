// The collectives of a group over nccl that were captured in one graph, as its replays are watched.
#pragma once

#include <memory>

#include "ringlet/comm/transports/nccl_watchdog.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"

namespace ringlet::comm {

/// Goes, with its graph, before the group.
class NcclReplays final : public ReplayObserver {
 public:
  NcclReplays(const Membership& membership, NcclWatchdog& watchdog, Device device,
              const Call& first)
      : membership_(membership), watchdog_(watchdog), device_(device), first_(first) {}
  void add_one() { ++count_; }

  /// Throws what ended the group: its communicator is gone then.
  void begin_replay() override {
    membership_.check_alarm();
    begun_ = std::make_shared<Event>(device_);
    begun_->record();
  }
  void end_replay() override {
    const auto ended = std::make_shared<Event>(device_);
    ended->record();
    watchdog_.watch_replay(first_, count_, std::move(begun_), ended);
  }

 private:
  const Membership& membership_;
  NcclWatchdog& watchdog_;
  Device device_;
  Call first_;
  int count_ = 0;
  std::shared_ptr<const Event> begun_;
};

}  // namespace ringlet::comm
