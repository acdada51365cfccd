// The streams of the emulated GPUs, with the clocks of the race detection and the host's accesses
// to pinned memory.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <set>

#include "../../streams/scheduler.h"
#include "../emulated.h"
#include "../gpu/launch.h"

namespace ringlet::emulated {

using streams::Graph, streams::Point, streams::Step;

constexpr std::int64_t kSlice = 20000;  // instructions of warps between two looks at other streams

/// A range of pinned memory that a copy reads or writes.
struct PinnedBytes {
  std::byte* data = nullptr;
  std::size_t nbytes = 0;
  bool writes = false;
};

/// A launch or a copy. Graph replays start it again.
struct StreamOperation {
  std::string name;  // of the kernel or the API call
  std::function<Step(const LaunchOrder&)> start;
  PinnedBytes pinned{};
  bool waits = false;  // for launches of other GPUs
};

struct Stream : streams::Stream {
  std::uint32_t id = 0;
  int device = 0;
  std::uint32_t operations = 0;  // enqueued so far
  StreamClock clock;
};

/// All streams of all devices. Callers hold mutex().
class Streams final : public streams::Scheduler {
 public:
  static Streams& instance();

  Stream* make(int device);
  void remove(Stream* stream);
  /// The stream of a handle; null names the current device's default stream.
  Stream* of(cudaStream_t stream);

  using Scheduler::enqueue;
  void enqueue(Stream* stream, StreamOperation operation);

  /// The host waits for a stream, for all, or for a point; later operations come after what it
  /// waited for. Returns the first fault since the previous waiting call, or success.
  cudaError_t finish(Lock& lock, const Stream* stream);
  cudaError_t finish_all(Lock& lock);
  cudaError_t finish(Lock& lock, const Point& point);
  /// A call that a driver may delay until running kernels have ended, those of peers too. Other
  /// threads' launches are delayed as well. Here it waits for kernels that wait for other GPUs;
  /// others end without the host. It orders nothing. With several GPUs it throws if ringlet
  /// calls outside its launch gate.
  void delay_call(Lock& lock, const char* name = __builtin_FUNCTION());
  void delay_launch(Lock& lock);
  /// Runs a random part of the enqueued work.
  void go_on();

  std::uint64_t nanoseconds() const { return nanoseconds_; }
  int faults() const { return faults_; }
  /// Reports a fault: it is printed and returned by the next waiting call.
  void fail(const std::exception& error);

 private:
  Streams();
  void on_start(streams::Stream& stream, const streams::Node& node) override;
  void on_done(const streams::Stream& stream, streams::Node& node) override;
  void enqueue_now(Stream& stream, const std::shared_ptr<const StreamOperation>& operation);
  Step start(Stream& stream, const StreamOperation& operation, OperationOrder::Place place);
  cudaError_t host_has_seen(const StreamClock& clock);

  std::set<Stream*> streams_;
  std::map<int, Stream*> defaults_;
  std::uint32_t next_id_ = 0;
  std::vector<Point> waiting_launches_;
  int delayed_calls_ = 0;
  std::shared_ptr<const StreamClock> host_ = std::make_shared<const StreamClock>();
  std::mt19937_64 random_{settings().seed};
  std::uint64_t nanoseconds_ = 0;
  cudaError_t fault_ = cudaSuccess;
  int faults_ = 0;
};

/// The calling thread's current device.
int& current_device();
/// Stores an error for cudaGetLastError().
cudaError_t note(cudaError_t error);
/// For calls that are not allowed during a capture: invalidates it and returns the error.
cudaError_t refuse_beside_captures();

}  // namespace ringlet::emulated
