// Streams and events: the order of a device's work. Work of one stream runs in the order in which
// it is enqueued; streams run concurrently except where events order them. Only the device waits,
// never the host. A CPU is synchronous: streams and events have no effect there.
//
//   SideStream side(device);
//   StreamEvent ready(device), done(device);
//   ready.record();                // after this thread's work on the device so far
//   {
//     const StreamGuard on(side);  // for a scope, this thread's work for the device goes there
//     ready.make_wait();
//     work();
//     done.record();
//   }
//   done.make_wait();              // this thread's next work on the device runs after `work`
#pragma once

#include <memory>

#include "ringlet/core/device/device_objects.h"

namespace ringlet {

/// A separate stream. It may be destroyed while its work is in flight.
class SideStream {
 public:
  explicit SideStream(Device device, StreamPriority priority = StreamPriority::high);

 private:
  friend class StreamGuard;
  std::unique_ptr<DeviceStream> stream_;  // null on a CPU
};

/// Directs this thread's work for the stream's device to the stream, for a scope.
class StreamGuard {
 public:
  explicit StreamGuard(const SideStream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  DeviceStream* stream_;
  const void* before_;
};

/// A point in the work of a device. An event that was never recorded is complete.
class StreamEvent {
 public:
  explicit StreamEvent(Device device);

  Device device() const { return device_; }
  /// Records a point after this thread's work on the device, on its current stream.
  void record() const;
  /// This thread's next work on `device`, on its current stream, waits for the point recorded last.
  void make_wait(Device device) const;
  void make_wait() const { make_wait(device_); }
  /// Whether the device has reached the point.
  bool done() const;

 private:
  Device device_;
  std::unique_ptr<DeviceEvent> event_;  // null on a CPU
};

}  // namespace ringlet
