// Graphs: device work that is captured once and enqueued repeatedly as a whole, at less cost than
// its launches. A device type has graphs or reports why not; callers never check the type.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "ringlet/core/device/backend.h"

namespace ringlet {

/// Why work of the device cannot be captured; empty if it can.
std::string why_no_graphs(Device device);

/// Captures the work that `work` enqueues on `device` from this thread. It first runs at the first
/// replay; every replay uses the memory and the numbers of the capture. Host code in `work` runs
/// once, during the capture. Its tensors use memory that all graphs of the device share and must be
/// released when it returns: copy results into tensors made before. Error, with nothing captured,
/// if the device has no graphs. The same if `work` throws, waits for the device, copies between
/// host and device or leaves tensors behind.
std::unique_ptr<DeviceGraph> capture(Device device, const std::function<void()>& work);

/// Whether this thread is inside capture().
bool is_capturing();
/// Throws "[graph] WHAT cannot be captured" inside this thread's capture(); for calls that a graph
/// cannot repeat.
void check_not_capturing(const char* what);
/// Throws also if another thread captures the stream of `device`, which would include the call.
void check_not_capturing(const char* what, Device device);

/// Runs `call` when this thread's capture() ends or fails. For calls that would order captured work
/// after other work, or other work after it.
void run_after_capture(std::function<void()> call);

/// Receives the replays of a graph.
class ReplayObserver {
 public:
  virtual ~ReplayObserver() = default;
  /// Called before a replay, on its thread and stream. If this throws, replay() throws the same and
  /// enqueues nothing.
  virtual void begin_replay() = 0;
  /// Called after begin_replay() of all observers. Nothing is allocated or loaded from here to the
  /// replay. If this throws, it is as above.
  virtual void meet() {}
  /// Called after the replay is enqueued.
  virtual void end_replay() = 0;
  /// Called instead if any observer or the replay itself throws.
  virtual void replay_failed(const std::exception& /*error*/) {}
};
/// Called in a capture: `observer` receives each replay of its graph during the graph's lifetime.
void observe_replays(std::shared_ptr<ReplayObserver> observer);

}  // namespace ringlet
