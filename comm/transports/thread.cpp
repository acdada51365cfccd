// Ranks as threads of one process: the board, and what tensors on GPUs need beside it. On a device
// only events order the ranks' streams. A message carries an event after which its bytes are valid,
// a channel one after which they have been read. The bytes of another device are fetched first.
#include <array>
#include <map>
#include <optional>
#include <set>

#include "ringlet/comm/transports/board.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::comm {
namespace {

/// The events that this rank records on one device. A peer that waits for one only after it was
/// recorded again waits for later work, too, all of which has been enqueued.
struct Events {
  explicit Events(Device device) : read(device) {}
  std::array<std::optional<StreamEvent>, Channel::kSlots> ready;
  std::size_t steps = 0;  // with sends
  StreamEvent read;
};

class ThreadTransport final : public BoardTransport {
 public:
  using BoardTransport::BoardTransport;

 private:
  const std::byte* view(const Transmission& sent, const Location& theirs, const StreamEvent* ready,
                        std::byte* place) override {
    const Device device = buffer().device();
    if (theirs.device.type != device.type)
      member().end(str("[", name(call().op), "] rank ", member().name_of(sent.peer),
                       "'s tensor is on ", theirs.device, ", rank ", member().me(), "'s on ",
                       device));
    const bool in_kernel = is_in_kernel(call().algorithm);
    if (in_kernel && theirs.device != device &&
        !backend(device.type).has_link(device, theirs.device))
      member().end(str("[", name(call().op), "] ", device, " has no peer access to ", theirs.device,
                       ", and ", name(call().algorithm),
                       " is for ranks whose GPUs have it: choose ring or direct"));
    if (ready) ready->make_wait(device);
    const std::byte* bytes = BoardTransport::view(sent, theirs, ready, place);
    return theirs.device == device || in_kernel || !ready
               ? bytes
               : fetched(bytes, theirs.device, sent.nbytes, place);
  }

  // A copy on this rank's device: at `place` or, if that is null, valid as long as the views.
  const std::byte* fetched(const std::byte* bytes, Device from, std::size_t nbytes,
                           std::byte* place) {
    const Device device = buffer().device();
    look_for_link(device, from);
    if (!place) {
      fetched_.push_back(empty({static_cast<std::int64_t>(nbytes)}, DType::u8, device));
      place = fetched_.back().mutable_bytes();
    }
    backend(device.type).fetch(place, device, bytes, from, nbytes);
    return place;
  }

  void look_for_link(Device to, Device from) {
    if (!looked_for_.insert({to, from}).second || backend(to.type).has_link(to, from)) return;
    member().note("links", str("[group] ", member().id, ": ", without_link(to, from)));
  }

  const StreamEvent* mark_ready() override {
    Events* events = on_device();
    if (!events) return nullptr;
    std::optional<StreamEvent>& ready = events->ready[events->steps++ % Channel::kSlots];
    if (!ready) ready.emplace(buffer().device());
    ready->record();
    return &*ready;
  }
  const StreamEvent* mark_read() override {
    fetched_.clear();
    Events* events = on_device();
    if (!events) return nullptr;
    events->read.record();
    return &events->read;
  }

  // Later work may overwrite what the peers read.
  void order_after_readers() override {
    if (!buffer() || buffer().device().type == DeviceType::cpu) return;
    for (int peer = 0; peer < member().size; ++peer)
      if (const StreamEvent* read = board().channel(member().rank, peer).read.exchange(nullptr))
        read->make_wait(buffer().device());
  }

  /// Null on a CPU.
  Events* on_device() {
    const Device device = buffer().device();
    if (device.type == DeviceType::cpu) return nullptr;
    std::shared_ptr<Events>& events = events_[device];
    if (!events) {
      events = std::make_shared<Events>(device);
      board().keep(events);  // a peer may wait for them after this rank has ended
    }
    return events.get();
  }

  std::set<std::pair<Device, Device>> looked_for_;
  std::map<Device, std::shared_ptr<Events>> events_;
  std::vector<Tensor> fetched_;
};

}  // namespace

std::unique_ptr<Transport> make_thread_transport(const Membership& membership) {
  return std::make_unique<ThreadTransport>(membership);
}

}  // namespace ringlet::comm
