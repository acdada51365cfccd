// Memory of the cpu devices: one caching allocator per device, over mappings. These are private, in
// huge pages if the system has them. Once the process has peers that map its memory, new mappings
// are memfds.
#include "ringlet/core/device/backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "ringlet/core/base/error.h"
#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/cpu/pages.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/device/chunk_allocator.h"

namespace ringlet {
namespace {

constexpr std::size_t kAlignment = 64;                   // one cache line, one vector
constexpr std::size_t kSegment = std::size_t{32} << 20;  // smallest mapping

class CpuAllocator final : public ChunkAllocator {
 public:
  CpuAllocator(Device device, std::size_t limit, bool shared)
      : ChunkAllocator(device, limit), shared_(shared) {}

  MemoryBlock allocate(std::size_t nbytes) {
    const std::size_t wanted = up_to(std::max(nbytes, kAlignment), kAlignment);
    const std::lock_guard lock(mutex_);
    return ChunkAllocator::allocate({.shared = shared_}, wanted, kAlignment)->block;
  }

  void release(const MemoryBlock& block) {
    const std::lock_guard lock(mutex_);
    if (owns(block)) ChunkAllocator::release(chunk_of(block));  // else the parent's: in a fork
  }

  void share() {
    const std::lock_guard lock(mutex_);
    shared_ = true;
  }

  int descriptor(const MemoryBlock& block) const {
    const std::lock_guard lock(mutex_);
    return owns(block) ? block.fd : -1;  // the parent's: in a forked child
  }

  // Maps every shared segment again at the same address, as a private copy of the parent's bytes.
  // The private segments are such copies since the fork.
  void make_private() const {
    for (const auto& [data, chunk] : chunks_) {
      if (chunk.previous || !chunk.pool.shared) continue;
      std::size_t nbytes = 0;
      for (const Chunk* part = &chunk; part; part = part->next) nbytes += part->block.nbytes;
      RINGLET_CHECK(mmap(data, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                         chunk.block.fd, 0) != MAP_FAILED,
                    "[fork] ", nbytes, " bytes of inherited memory: ", std::strerror(errno));
    }
  }

 private:
  MemoryBlock make_segment(const ChunkPool& pool, std::size_t wanted) override {
    // At least an eighth of the reserved bytes: a program maps a few times, not for every batch
    // that is longer than all before it. Pages that are never written take no memory.
    const auto map = pool.shared ? cpu::map_shared : cpu::map_private;
    cpu::Pages pages = map(std::max({wanted, kSegment, stats_.reserved / 8}));
    if (!pages.data) pages = map(wanted);  // the system may limit mapped memory, too
    if (!pages.data)
      fail("[allocate] ", wanted, " bytes of memory: ", std::strerror(errno), " (",
           stats_.allocated, " in use)");
    return {pages.data, pages.nbytes, pages.fd};
  }

  bool shared_;  // the kind of new mappings
};

class CpuBackend final : public DeviceBackend {
 public:
  int device_count() const override {
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  MemoryBlock allocate(Device device, std::size_t nbytes) override {
    return of(device).allocate(nbytes);
  }
  void release(Device device, const MemoryBlock& block) override { of(device).release(block); }
  void copy(void* to, Device, const void* from, Device, std::size_t nbytes) override {
    if (nbytes > 0) std::memmove(to, from, nbytes);  // slices of one tensor may overlap
  }
  void synchronize(Device) override {}
  MemoryStats memory(Device device) const override {
    MemoryStats stats = of(device).stats();
    stats.scratch = cpu::scratch_bytes();
    return stats;
  }
  void count_sidecar(Device device, const MemoryBlock& block, std::ptrdiff_t nbytes) override {
    of(device).count_sidecar(block, nbytes);
  }
  void reset_peak(Device device) override { of(device).reset_peak(); }
  void set_limit(Device device, std::size_t nbytes) override {
    of(device).set_limit(nbytes);
    const std::lock_guard lock(mutex_);
    limits_[device.index] = nbytes;
  }
  int descriptor(Device device, const MemoryBlock& block) const override {
    return block.fd < 0 ? -1 : of(device).descriptor(block);
  }
  void share_memory() {
    const std::lock_guard lock(mutex_);
    leave_to_parent();
    shared_ = true;
    for (const auto& [index, allocator] : allocators_) allocator->share();
  }
  void own_inherited_memory() override {
    if (process_ == getpid()) return;
    for (const auto& [index, allocator] : allocators_) allocator->make_private();
  }

 private:
  CpuAllocator& of(Device device) const {
    const std::lock_guard lock(mutex_);
    leave_to_parent();
    auto& slot = allocators_[device.index];
    if (!slot) slot = std::make_unique<CpuAllocator>(device, limits_[device.index], shared_);
    return *slot;
  }
  // A forked child has its parent's mappings but cannot use its free lists: the parent still uses
  // the shared memory. The child starts with new allocators and without peers.
  void leave_to_parent() const {
    if (process_ == getpid()) return;
    for (auto& [index, allocator] : allocators_) static_cast<void>(allocator.release());
    allocators_.clear();
    shared_ = false;
    process_ = getpid();
  }
  mutable std::mutex mutex_;
  mutable std::map<int, std::unique_ptr<CpuAllocator>> allocators_;
  mutable std::map<int, std::size_t> limits_;  // kept by a forked child
  mutable bool shared_ = false;                // true: other processes map this one's memory
  mutable pid_t process_ = getpid();
};

CpuBackend& cpu_backend() {
  // Never destroyed: tensors with static storage may outlive every other object.
  static auto* backend = new CpuBackend;
  return *backend;
}

}  // namespace

void cpu::share_memory() { cpu_backend().share_memory(); }

void register_cpu() {
  set_backend(DeviceType::cpu, &cpu_backend());
  cpu::register_kernels();
}

}  // namespace ringlet
