// The order of a group's collectives among a device's work. On a CPU it has no effect.
//
// On a device, a collective runs on the group's own stream, between two events. It is ordered after
// the caller's stream work from before the call; the stream's work after wait() is ordered after
// it. The queue only enqueues the work: no host thread waits for its completion.
#pragma once

#include <atomic>
#include <memory>

#include "ringlet/comm/engine.h"

namespace ringlet::comm {

/// A group's stream on a device, and the end of its latest collective there.
class GroupStream {
 public:
  explicit GroupStream(Device device)
      : end(std::make_shared<StreamEvent>(device)), stream_(device), id_(++made_) {}

  /// Records the collective's begin. Its tensors' memory is not used again before its end.
  void enter(Collective& collective) {
    const Device device = end->device();
    const bool on_cpu = device.type == DeviceType::cpu;  // events have no effect there
    const auto event = [&] { return on_cpu ? end : std::make_shared<StreamEvent>(device); };
    collective.stream = &stream_;
    collective.begin = event();
    collective.begin->record();
    collective.end = event();
    if (!collective.captured) end = collective.end;  // a captured one leaves it unchanged
    for (const Tensor& tensor : collective.tensors)
      if (tensor && !on_cpu) tensor.storage()->use_until(id_, collective.end);
  }

  std::shared_ptr<StreamEvent> end;

 private:
  static inline std::atomic<std::uint64_t> made_{0};
  SideStream stream_;
  std::uint64_t id_;  // unique in the process
};

}  // namespace ringlet::comm
