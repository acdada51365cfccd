#include "ringlet/core/device/stream.h"

#include "ringlet/core/device/backend.h"

namespace ringlet {

Stream::Stream(Device device, StreamPriority priority)
    : stream_(backend(device.type).make_stream(device, priority)) {}

StreamGuard::StreamGuard(const Stream& stream)
    : stream_(stream.stream_.get()), before_(stream_ ? stream_->enter() : nullptr) {}
StreamGuard::~StreamGuard() {
  if (stream_) stream_->leave(before_);
}

Event::Event(Device device) : device_(device), event_(backend(device.type).make_event(device)) {}
void Event::record() const {
  if (event_) event_->record();
}
void Event::make_wait(Device device) const {
  if (event_) event_->make_wait(device);
}
bool Event::done() const { return !event_ || event_->done(); }

}  // namespace ringlet
