// Streams: enqueued work runs later, mostly while the host waits. The seed chooses one of the
// orders that streams and events allow.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "../gpu/launch.h"

namespace ringlet::emulated {

/// Continues started work for about `instructions`; returns true on completion.
using Step = std::function<bool(std::int64_t instructions)>;
/// A range of pinned memory that a copy reads or writes.
struct PinnedBytes {
  std::byte* data = nullptr;
  std::size_t nbytes = 0;
  bool writes = false;
};

/// Graph replays start it again.
struct Work {
  std::string name;  // of the kernel or the API call
  std::function<Step(const LaunchOrder&)> start;
  PinnedBytes pinned{};
};

struct Capture;

/// A recorded position in a stream.
struct Point {
  bool done = false;
  StreamClock clock;
  std::uint64_t nanoseconds = 0;
  Capture* capture = nullptr;  // that it was recorded in
};

struct Item {
  enum class Kind { work, wait, record };
  Kind kind = Kind::work;
  Work work{};
  std::shared_ptr<Point> point{};
  std::shared_ptr<const StreamClock> host{};  // what the host had waited for
};

struct Stream {
  std::uint32_t id = 0;
  int device = 0;
  std::deque<Item> items;
  Step running;
  std::uint32_t enqueued = 0, started = 0;  // works so far
  StreamClock clock;
  Capture* capture = nullptr;
  std::size_t lane = 0;  // in the capture
};

/// The operations of captured streams.
struct Capture {
  struct Entry {
    std::size_t lane = 0;
    Item item;
  };
  struct Lane {
    Stream* stream = nullptr;
    std::uint32_t items = 0;
    StreamClock clock;  // by lane: what has been joined
  };
  unsigned long long number = 0;
  std::vector<Lane> lanes;  // the origin first
  std::vector<Entry> entries;
  cudaError_t broken = cudaSuccess;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::size_t thread = 0;
};

/// All streams of all devices. Callers hold mutex().
class Streams {
 public:
  static Streams& instance();

  std::mutex& mutex() { return mutex_; }

  Stream* make(int device);
  void remove(Stream* stream);
  /// The stream of a handle; null names the current device's default stream.
  Stream* of(cudaStream_t stream);
  bool is_stream(const Stream* stream) const {
    return streams_.contains(const_cast<Stream*>(stream));
  }

  void enqueue(Stream* stream, Work work);
  std::shared_ptr<Point> record(Stream* stream);
  /// Returns false if only one of stream and point belongs to a capture.
  bool wait(Stream* stream, const std::shared_ptr<Point>& point);

  /// Runs work until `done` is true and releases the lock between steps. Returns the first fault
  /// since the previous waiting call, or success.
  cudaError_t run_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  bool is_idle(const Stream* stream) const { return stream->items.empty() && !stream->running; }
  bool is_idle() const;
  /// Orders everything enqueued later after `clock`: the host has waited for it.
  void host_has_seen(const StreamClock& clock);
  void host_has_seen_all();
  /// Runs a random part of the enqueued work.
  void go_on();

  std::uint64_t nanoseconds() const { return nanoseconds_; }
  cudaError_t take_fault();
  int faults() const { return faults_; }
  /// Reports a fault: it is printed and returned by the next waiting call.
  void fail(const std::exception& error);

 private:
  bool step();
  bool advance(Stream& stream);
  bool can_advance(const Stream& stream) const;

  std::mutex mutex_;
  std::condition_variable enqueued_;
  std::set<Stream*> streams_;
  std::map<int, Stream*> defaults_;
  std::uint32_t next_id_ = 0;
  std::shared_ptr<const StreamClock> host_ = std::make_shared<const StreamClock>();
  std::mt19937_64 random_;
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
