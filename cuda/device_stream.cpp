#include "ringlet/cuda/device_stream.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {
namespace {

// Caches unused streams. The allocator's blocks belong to a stream until the program exits, and
// work of a stream's last user may be in flight.
class StreamPool {
 public:
  Stream take(Device device, StreamPriority priority) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(), [&](const Stream& stream) {
      return stream.device() == device && stream.priority() == priority;
    });
    if (found == free_.end()) return Stream(device, priority);
    Stream stream = std::move(*found);
    free_.erase(found);
    return stream;
  }
  void put_back(Stream stream) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(stream));
  }

 private:
  std::mutex mutex_;
  std::vector<Stream> free_;
};

// Never destroyed: the driver may be unloaded first.
StreamPool& pool() {
  static auto* const streams = new StreamPool;
  return *streams;
}

class PooledStream final : public DeviceStream {
 public:
  PooledStream(Device device, StreamPriority priority) : stream_(pool().take(device, priority)) {}
  ~PooledStream() override { pool().put_back(std::move(stream_)); }
  PooledStream(const PooledStream&) = delete;
  PooledStream& operator=(const PooledStream&) = delete;

  const void* enter() override { return set_stream(stream_.device(), stream_.get()); }
  void leave(const void* before) override {
    set_stream(stream_.device(), static_cast<cudaStream_t>(const_cast<void*>(before)));
  }

 private:
  Stream stream_;
};

class OwnEvent final : public DeviceEvent {
 public:
  explicit OwnEvent(Device device) : device_(device), event_(device) {}
  void record() override { event_.record(current_stream(device_)); }
  void make_wait(Device waiting) override { event_.make_wait(current_stream(waiting)); }
  bool done() override { return event_.done(); }

 private:
  Device device_;
  Event event_;
};

}  // namespace

std::unique_ptr<DeviceStream> make_stream(Device device, StreamPriority priority) {
  return std::make_unique<PooledStream>(device, priority);
}
std::unique_ptr<DeviceEvent> make_event(Device device) {
  return std::make_unique<OwnEvent>(device);
}

}  // namespace ringlet::cuda
