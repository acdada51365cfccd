#include "ringlet/core/device/stream.h"

#include "ringlet/core/device/backend.h"

namespace ringlet {

SideStream::SideStream(Device device, StreamPriority priority)
    : stream_(backend(device.type).make_stream(device, priority)) {}

StreamGuard::StreamGuard(const SideStream& stream)
    : stream_(stream.stream_.get()), before_(stream_ ? stream_->enter() : nullptr) {}
StreamGuard::~StreamGuard() {
  if (stream_) stream_->leave(before_);
}

StreamEvent::StreamEvent(Device device)
    : device_(device), event_(backend(device.type).make_event(device)) {}
void StreamEvent::record() const {
  if (event_) event_->record();
}
void StreamEvent::make_wait(Device device) const {
  if (event_) event_->make_wait(device);
}
bool StreamEvent::done() const { return !event_ || event_->done(); }

}  // namespace ringlet
