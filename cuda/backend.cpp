// Memory and copies of the cuda devices.
#include "ringlet/core/device/backend.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/cuda/caching_allocator.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/graph.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/launch_gate.h"
#include "ringlet/cuda/peer_ranks.h"
#include "ringlet/cuda/staging.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

class DeviceSegments final : public SegmentSource {
 public:
  explicit DeviceSegments(Device device) : device_(device) {}
  std::byte* take(std::size_t nbytes) override {
    const DeviceGuard guard(device_);
    const BesideCapture beside;
    void* data = nullptr;
    const LaunchGate::Call call;
    const cudaError_t status = cudaMalloc(&data, nbytes);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    RINGLET_CUDA(status);
    return static_cast<std::byte*>(data);
  }
  void give_back(std::byte* segment) override {
    const DeviceGuard guard(device_);
    const LaunchGate::Call call;
    RINGLET_CUDA(cudaFree(segment));  // synchronises with the device
  }
  std::string situation() const override {
    const DeviceGuard guard(device_);
    const BesideCapture beside;
    std::size_t free = 0, total = 0;
    RINGLET_CUDA(cudaMemGetInfo(&free, &total));
    return str("the device has ", free, " free of ", total);
  }

 private:
  Device device_;
};

/// Whether each block has a separate allocation (RINGLET_CUDA_EXACT), for compute-sanitizer.
inline bool blocks_are_exact() { return std::getenv("RINGLET_CUDA_EXACT") != nullptr; }

/// State of one device: its memory, the pinned memory for copies and the current capture.
struct DeviceMemory {
  explicit DeviceMemory(Device device)
      : segments(device), allocator(device, segments, blocks_are_exact()), downloads(device) {}

  DeviceSegments segments;
  CachingAllocator allocator;
  Downloads downloads;
  std::once_flag staging_made;
  std::unique_ptr<Staging> staging;
  std::mutex capture_mutex;
  std::unique_ptr<DeviceCapture> capture;
};

}  // namespace
}  // namespace ringlet::cuda

namespace ringlet {
namespace {

bool overlap(const std::byte* a, const std::byte* b, std::size_t nbytes) {
  return a < b + nbytes && b < a + nbytes;
}

class CudaBackend final : public DeviceBackend {
 public:
  int device_count() const override { return cuda::device_count(); }
  std::string why_none() const override { return cuda::why_no_device(); }

  MemoryBlock allocate(Device device, std::size_t nbytes) override {
    return of(device).allocator.allocate(nbytes, cuda::current_stream(device));
  }

  void release(Device device, const MemoryBlock& block) override {
    cuda::DeviceMemory& memory = of(device);
    const auto owner =
        static_cast<cudaStream_t>(const_cast<void*>(memory.allocator.stream_of(block)));
    cudaStream_t user = owner;
    try {
      user = cuda::current_stream(device);
      if (is_for_later(memory, block, user, owner) && release_later(memory, block, user)) return;
    } catch (const Error&) {  // while the program ends the driver may be gone
    }
    cuda::release_after_use(device, memory.allocator, block, user);
  }

  void copy(void* to, Device to_device, const void* from, Device from_device,
            std::size_t nbytes) override {
    if (nbytes == 0) return;
    if (to_device != from_device)
      for (const Device device : {to_device, from_device})
        check_not_capturing("a copy to or from the device", device);
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    if (from_device.type == DeviceType::cpu) {
      staging(to_device).upload(target, source, nbytes, cuda::current_stream(to_device));
    } else if (to_device.type == DeviceType::cpu) {
      staging(from_device).download(target, source, nbytes, cuda::current_stream(from_device));
      cuda::check_reports();
    } else if (to_device == from_device) {
      copy_within(target, source, to_device, nbytes);
    } else {
      copy_across(target, to_device, source, from_device, nbytes);
    }
  }

  void fetch(void* to, Device to_device, const void* from, Device from_device,
             std::size_t nbytes) override {
    if (nbytes == 0) return;
    cuda::enable_peer_access(to_device, from_device);
    RINGLET_CUDA(cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, nbytes,
                                     cuda::current_stream(to_device)));
  }

  bool has_link(Device to, Device from) override { return cuda::enable_peer_access(to, from); }

  std::string bus_id(Device device) const override {
    std::array<char, 32> id{};
    RINGLET_CUDA(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device.index));
    return id.data();
  }

  void synchronize(Device device) override {
    check_not_capturing("waiting for the device");
    const cuda::DeviceGuard guard(device);
    // Other libraries' streams, too. It holds up no launch of another thread.
    RINGLET_CUDA(cudaDeviceSynchronize());
    cuda::check_reports();
  }
  std::unique_ptr<DeviceDownload> start_download(Device device, const void* from,
                                                 std::size_t nbytes) override {
    return of(device).downloads.start(from, nbytes, cuda::current_stream(device));
  }
  bool is_asynchronous() const override { return true; }
  std::unique_ptr<DeviceTime> device_time(Device device) override {
    return cuda::device_time(device);
  }
  void hold(Device device, double seconds) override { cuda::hold(device, seconds); }
  std::unique_ptr<DeviceStream> make_stream(Device device, StreamPriority priority) override {
    return cuda::make_stream(device, priority);
  }
  std::unique_ptr<DeviceEvent> make_event(Device device) override {
    return cuda::make_event(device);
  }
  void* stream(Device device) override {
    cuda::set_current(device);
    return cuda::current_stream(device);
  }
  bool is_captured(Device device) override {
    return cuda::is_capturing(cuda::current_stream(device));
  }
  std::unique_ptr<DeviceRanks> make_ranks(std::span<const Device> of_ranks,
                                          double seconds) override {
    return std::make_unique<cuda::PeerRanks>(of_ranks, cuda::PeerRanksOptions{.seconds = seconds});
  }
  int most_ranks() const override { return cuda::kMostPeers; }
  MemoryStats memory(Device device) const override { return of(device).allocator.stats(); }
  void count_sidecar(Device device, const MemoryBlock& block, std::ptrdiff_t nbytes) override {
    of(device).allocator.count_sidecar(block, nbytes);
  }
  void reset_peak(Device device) override { of(device).allocator.reset_peak(); }
  void set_limit(Device device, std::size_t nbytes) override {
    of(device).allocator.set_limit(nbytes);
  }

  std::string why_no_graphs(Device) const override {
    return cuda::blocks_are_exact() ? "with RINGLET_CUDA_EXACT no block outlives its use" : "";
  }
  void begin_capture(Device device) override {
    cuda::DeviceMemory& memory = of(device);
    memory.allocator.trim();  // what eager steps have used, graphs have anew
    auto capture = std::make_unique<cuda::DeviceCapture>(device, memory.allocator);
    const std::lock_guard lock(memory.capture_mutex);
    memory.capture = std::move(capture);
  }
  std::unique_ptr<DeviceGraph> end_capture(Device device) override {
    return take_capture(of(device))->finish();
  }
  void abandon_capture(Device device) override { take_capture(of(device)).reset(); }
  void join_capture(Device device) override {
    of(device).allocator.join_capture(cuda::current_stream(device));
  }

 private:
  static bool is_for_later(const cuda::DeviceMemory& memory, const MemoryBlock& block,
                           cudaStream_t user, cudaStream_t owner) {
    return user != owner &&
           cuda::release_order(/*same_stream=*/false, cuda::is_capturing(user),
                               cuda::is_capturing(owner), memory.allocator.is_of_graphs(block)) ==
               cuda::ReleaseOrder::behind_capture;
  }
  // False where the capture has ended meanwhile.
  static bool release_later(cuda::DeviceMemory& memory, const MemoryBlock& block,
                            cudaStream_t user) {
    const std::lock_guard lock(memory.capture_mutex);
    if (memory.capture) memory.capture->release_later(block, user);
    return memory.capture != nullptr;
  }
  static std::unique_ptr<cuda::DeviceCapture> take_capture(cuda::DeviceMemory& memory) {
    const std::lock_guard lock(memory.capture_mutex);
    return std::move(memory.capture);
  }

  static void copy_within(std::byte* to, const std::byte* from, Device device, std::size_t nbytes) {
    const cudaStream_t stream = cuda::current_stream(device);
    if (!overlap(to, from, nbytes)) {
      RINGLET_CUDA(cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDeviceToDevice, stream));
      return;
    }
    const cuda::Workspace between(device, nbytes);  // slices of one tensor may overlap
    RINGLET_CUDA(cudaMemcpyAsync(between.data(), from, nbytes, cudaMemcpyDeviceToDevice, stream));
    RINGLET_CUDA(cudaMemcpyAsync(to, between.data(), nbytes, cudaMemcpyDeviceToDevice, stream));
  }

  // After what both devices were given before, and before what they are given next.
  static void copy_across(std::byte* to, Device to_device, const std::byte* from,
                          Device from_device, std::size_t nbytes) {
    const cudaStream_t source = cuda::current_stream(from_device);
    const cudaStream_t target = cuda::current_stream(to_device);
    cuda::enable_peer_access(to_device, from_device);
    const cuda::Event ready(from_device), done(to_device);
    ready.record(source);
    ready.make_wait(target);
    RINGLET_CUDA(cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, nbytes, target));
    done.record(target);
    done.make_wait(source);
  }

  cuda::DeviceMemory& of(Device device) const {
    RINGLET_CHECK(device.index >= 0 && device.index < device_count(), "there is no device ",
                  device);
    const auto i = static_cast<std::size_t>(device.index);
    std::call_once(made_[i], [&] { memories_[i] = std::make_unique<cuda::DeviceMemory>(device); });
    return *memories_[i];
  }
  cuda::Staging& staging(Device device) const {
    cuda::DeviceMemory& memory = of(device);
    std::call_once(memory.staging_made,
                   [&] { memory.staging = std::make_unique<cuda::Staging>(device); });
    return *memory.staging;
  }

  mutable std::array<std::once_flag, cuda::kMostDevices> made_;
  mutable std::array<std::unique_ptr<cuda::DeviceMemory>, cuda::kMostDevices> memories_;
};

}  // namespace

void cuda::register_kernels() { RINGLET_KERNEL_FAMILIES(RINGLET_CALL_FAMILY) }

void register_cuda() {
  // Never destroyed: tensors with static storage may outlive every other object.
  static auto* backend = new CudaBackend;
  set_backend(DeviceType::cuda, backend);
  cuda::register_kernels();
}

}  // namespace ringlet
