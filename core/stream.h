// Streams and events: in which order a device works. What one stream is given runs in the order in
// which it is given; streams run beside each other but for events. Only the device waits, never the
// host. A CPU is done with all that it was given: there neither does anything.
//
//   Stream beside(device);
//   Event ready(device), done(device);
//   ready.record();                // behind what this thread has given the device
//   {
//     const StreamGuard on(beside);  // for a scope, this thread's work for the device goes there
//     ready.make_wait();
//     work();
//     done.record();
//   }
//   done.make_wait();              // what this thread gives the device next runs behind `work`
#pragma once

#include <memory>

#include "ringlet/core/device.h"

namespace ringlet {

/// A stream's own part of a device; see Backend::make_stream.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  /// This thread's work for the device goes here, until leave() gets what this returned.
  virtual const void* enter() = 0;
  virtual void leave(const void* before) = 0;
};

/// See Backend::make_event.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual void record() = 0;
  virtual void make_wait(Device waiting) = 0;
  virtual bool done() = 0;
};

/// A stream of its own. Its work may be under way still when it goes.
class Stream {
 public:
  explicit Stream(Device device);

 private:
  friend class StreamGuard;
  std::unique_ptr<DeviceStream> stream_;  // null on a CPU
};

/// For a scope, this thread's work for the stream's device goes to the stream.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  DeviceStream* stream_;
  const void* before_;
};

/// A point in the work of a device. One that was never recorded has passed.
class Event {
 public:
  explicit Event(Device device);

  Device device() const { return device_; }
  /// Behind what this thread has given the device, on the stream that it is on.
  void record() const;
  /// What this thread gives `device` from now on, on the stream that it is on, waits for the point
  /// recorded last.
  void make_wait(Device device) const;
  void make_wait() const { make_wait(device_); }
  /// Whether the device has come there.
  bool done() const;

 private:
  Device device_;
  std::unique_ptr<DeviceEvent> event_;  // null on a CPU
};

}  // namespace ringlet
