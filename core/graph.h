// Graphs: work of a device that is captured once and given to it again and again as one, for less
// than its launches would cost. A device type has them or says why not; nobody above asks which.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ringlet/core/backend.h"

namespace ringlet {

/// Why work of the device cannot be captured; empty where it can.
std::string why_no_graphs(Device device);

/// What `work` gives to `device` on this thread, captured: nothing of it runs before the first
/// replay, which uses the same memory and the same numbers as the capture saw. What `work` does on
/// the host beside it is done once, here. Its tensors take memory that all graphs of the device
/// share, and must be gone when it returns: results are copied into tensors made before.
/// Error, with nothing captured, where the device has no graphs, and where `work` throws, waits for
/// the device, copies between host and device or leaves tensors behind.
std::unique_ptr<DeviceGraph> capture(Device device, const std::function<void()>& work);

/// Whether this thread is in capture().
bool is_capturing();
/// For what a graph would do wrong: Error "[graph] WHAT cannot be captured" while this thread is.
void check_not_capturing(const char* what);
/// And while another thread captures what `device` is given, of which this would be a part.
void check_not_capturing(const char* what, Device device);

/// When this thread's capture() has ended, one way or the other: for what would order captured work
/// behind other work, or that behind it.
void run_after_capture(std::function<void()> call);

/// Who is told when a graph is given to the device.
class ReplayObserver {
 public:
  virtual ~ReplayObserver() = default;
  /// Before a replay, on the thread and the stream that it is given on; what this throws, replay()
  /// throws with nothing given.
  virtual void begin_replay() = 0;
  /// Behind it.
  virtual void end_replay() = 0;
};
/// In a capture: of each replay of its graph, as long as that lives.
void observe_replays(std::shared_ptr<ReplayObserver> observer);

/// For a scope, the shapes that this thread's work has will come again: what is tried out once for
/// each of them may take its time.
class ShapesRecur {
 public:
  ShapesRecur();
  ~ShapesRecur();
  ShapesRecur(const ShapesRecur&) = delete;
  ShapesRecur& operator=(const ShapesRecur&) = delete;

 private:
  bool before_;
};
bool shapes_recur();

}  // namespace ringlet
