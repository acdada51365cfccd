#include "ringlet/cuda/stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/build_settings.h"
#include "ringlet/core/base/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/launch_gate.h"

namespace ringlet::cuda {
namespace {

thread_local std::array<cudaStream_t, kMostDevices> chosen_streams{};
thread_local bool has_chosen = false;  // this thread chose a device by a DeviceGuard

// Lower numbers run first.
struct Priorities {
  Priorities() { RINGLET_CUDA(cudaDeviceGetStreamPriorityRange(&low, &high)); }
  int own() const { return std::max(low - 1, high); }
  int low = 0, high = 0;
};

cudaStream_t default_stream(Device device) {
  // Never destroyed: the driver may be unloaded before objects with static storage are destroyed.
  static auto* const streams = new std::array<cudaStream_t, kMostDevices>{};
  static auto* const made = new std::array<std::once_flag, kMostDevices>;
  const auto i = static_cast<std::size_t>(device.index);
  std::call_once((*made)[i], [&] {
    const DeviceGuard guard(device);
    const LaunchGate::Call call;
    RINGLET_CUDA(
        cudaStreamCreateWithPriority(&(*streams)[i], cudaStreamNonBlocking, Priorities().own()));
  });
  return (*streams)[i];
}

struct Found {
  int count = 0;
  std::string why_none;
};

std::string why_none_of(cudaError_t status) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return "there is no NVIDIA driver here";
  return str(cudaGetErrorString(status), " (", cudaGetErrorName(status), ')');
}

const Found& found_devices() {
  static const auto* const found = [] {
    auto* devices = new Found;
    if (std::string_view(RINGLET_CUDA_ARCH).empty()) {
      devices->why_none = "this build has no kernels for GPUs: configure with -Dgpu_arch=…";
      return devices;
    }
    const cudaError_t status = cudaGetDeviceCount(&devices->count);
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      *devices = {0, why_none_of(status)};
    }
    devices->count = std::min(devices->count, kMostDevices);
    return devices;
  }();
  return *found;
}

}  // namespace

int device_count() { return found_devices().count; }
const std::string& why_no_device() { return found_devices().why_none; }

namespace {

std::atomic<bool>& has_context(Device device) {
  static std::array<std::atomic<bool>, kMostDevices> made{};
  return made[static_cast<std::size_t>(device.index)];
}

}  // namespace

void set_current(Device device) {
  std::optional<LaunchGate::Call> call;
  if (!has_context(device)) call.emplace();
  RINGLET_CUDA(cudaSetDevice(device.index));
  has_context(device) = true;
}

DeviceGuard::DeviceGuard(Device device) {
  RINGLET_CUDA(cudaGetDevice(&before_));
  changed_ = before_ != device.index;
  if (changed_ || !has_context(device)) set_current(device);
  // For a thread that has chosen none CUDA reports device 0. Restoring 0 would create a context on
  // it in every process.
  if (changed_ && !std::exchange(has_chosen, true)) changed_ = false;
}
DeviceGuard::~DeviceGuard() {
  if (changed_) cudaSetDevice(before_);
}

// Groups use streams of high priority for collectives. Their few blocks would otherwise queue after
// those of products that fill the device, while other ranks wait.
Stream::Stream(Device device, StreamPriority priority) : device_(device), priority_(priority) {
  const DeviceGuard guard(device);
  const LaunchGate::Call call;
  const Priorities numbers;
  const int number = priority == StreamPriority::high ? numbers.high : numbers.low;
  cudaStream_t stream = nullptr;
  RINGLET_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, number));
  stream_.reset(stream);
}

Event::Event(Device device, bool timed) : device_(device), event_(nullptr, {device}) {
  const DeviceGuard guard(device);
  const LaunchGate::Call call;
  cudaEvent_t event = nullptr;
  RINGLET_CUDA(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  event_.reset(event);
}
// Without a guard a thread that has chosen no device would create a context on device 0 here.
void Event::Destroy::operator()(cudaEvent_t event) const {
  try {
    const DeviceGuard guard(device);
    cudaEventDestroy(event);
  } catch (const Error&) {
    // The program exits and the driver is unloaded.
  }
}
void Event::record(cudaStream_t stream) const {
  const DeviceGuard guard(device_);
  RINGLET_CUDA(cudaEventRecord(event_.get(), stream));
}
void Event::make_wait(cudaStream_t stream) const {
  const DeviceGuard guard(device_);
  RINGLET_CUDA(cudaStreamWaitEvent(stream, event_.get(), 0));
}
void Event::synchronize() const {
  const DeviceGuard guard(device_);
  RINGLET_CUDA(cudaEventSynchronize(event_.get()));
}
bool Event::done() const {
  const DeviceGuard guard(device_);
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // or the caller's next check reports it
    return false;
  }
  RINGLET_CUDA(status);
  return true;
}
float Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  RINGLET_CUDA(cudaEventElapsedTime(&milliseconds, start.get(), get()));
  return milliseconds;
}

std::byte* allocate_pinned(Device device, std::size_t nbytes) {
  const DeviceGuard guard(device);
  const LaunchGate::Call call;
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, nbytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // otherwise the next check would report it again
    fail("[allocate] ", nbytes, " bytes of pinned host memory for ", device,
         ": out of memory; the host is full, or a limit is on what may be locked (ulimit -l)");
  }
  RINGLET_CUDA(status);
  return static_cast<std::byte*>(data);
}

void free_pinned(void* data) noexcept {
  const LaunchGate::Call call;
  cudaFreeHost(data);
}

cudaStream_t current_stream(Device device) {
  RINGLET_CHECK(device.type == DeviceType::cuda && device.index < device_count(),
                "there is no device ", device);
  const cudaStream_t chosen = chosen_streams[static_cast<std::size_t>(device.index)];
  return chosen ? chosen : default_stream(device);
}

cudaStream_t set_stream(Device device, cudaStream_t stream) {
  return std::exchange(chosen_streams[static_cast<std::size_t>(device.index)], stream);
}

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

namespace {

bool enable(Device to, Device from) {
  int can = 0;
  RINGLET_CUDA(cudaDeviceCanAccessPeer(&can, to.index, from.index));
  if (!can) return false;
  const DeviceGuard guard(to);
  const LaunchGate::Call call;
  const cudaError_t status = cudaDeviceEnablePeerAccess(from.index, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());  // another library has enabled it
    return true;
  }
  RINGLET_CUDA(status);
  return true;
}

struct Way {
  std::once_flag asked;
  bool direct = false;
};

}  // namespace

bool enable_peer_access(Device to, Device from) {
  static auto* const ways = new std::array<std::array<Way, kMostDevices>, kMostDevices>;
  Way& way = (*ways)[static_cast<std::size_t>(to.index)][static_cast<std::size_t>(from.index)];
  std::call_once(way.asked, [&] { way.direct = enable(to, from); });
  return way.direct;
}

}  // namespace ringlet::cuda
