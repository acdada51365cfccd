// Memory of the cpu devices: a caching best-fit allocator over mappings, one allocator per device.
// Mappings are private, in huge pages if the system has them. Once the process has peers that map
// its memory, new mappings are memfds.
#include "ringlet/core/device/backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "ringlet/core/base/error.h"
#include "ringlet/core/cpu/pages.h"
#include "ringlet/core/cpu/register.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/device/memory.h"

namespace ringlet {
namespace {

constexpr std::size_t kAlignment = 64;                   // one cache line, one vector
constexpr std::size_t kSegment = std::size_t{32} << 20;  // smallest mapping

// A range of bytes in a mapping. Adjacent free chunks are merged, so no two free chunks touch.
struct Chunk {
  std::byte* data;
  std::size_t nbytes;
  std::size_t fd_offset;  // 0: the first of its mapping
  int fd;
  bool free;
};

struct BySize {
  bool operator()(const Chunk* a, const Chunk* b) const {
    return a->nbytes != b->nbytes ? a->nbytes < b->nbytes : a->data < b->data;
  }
};

class CachingAllocator {
 public:
  CachingAllocator(Device device, std::size_t limit, bool shared)
      : device_(device), shared_(shared) {
    stats_.limit = limit;
  }

  MemoryBlock allocate(std::size_t nbytes) {
    if (nbytes > PTRDIFF_MAX) fail("[allocate] ", nbytes, " bytes are more than there can be");
    const std::size_t wanted = std::max(kAlignment, (nbytes + kAlignment - 1) & ~(kAlignment - 1));
    const std::lock_guard lock(mutex_);
    check_limit(device_, wanted, stats_);
    Chunk probe{nullptr, wanted, 0, -1, true};
    std::set<Chunk*, BySize>& fitting = free_[shared_];
    auto found = fitting.lower_bound(&probe);
    Chunk* chunk = found != fitting.end() ? *found : map_segment(wanted);
    fitting.erase(chunk);
    if (chunk->nbytes > wanted) split(chunk, wanted);
    chunk->free = false;
    stats_.allocated += chunk->nbytes;
    stats_.peak = std::max(stats_.peak, stats_.allocated);
    ++stats_.allocations;
    return {chunk->data, chunk->nbytes, chunk->fd, chunk->fd_offset};
  }

  void release(const MemoryBlock& block) {
    const std::lock_guard lock(mutex_);
    auto at = chunks_.find(block.data);
    if (at == chunks_.end()) return;  // the parent's block, in a forked child
    stats_.allocated -= at->second.nbytes;
    at->second.free = true;
    absorb_next(at);
    if (at->second.fd_offset > 0 && std::prev(at)->second.free) {
      --at;
      free_of(at->second).erase(&at->second);
      absorb_next(at);
    }
    free_of(at->second).insert(&at->second);
  }

  void share() {
    const std::lock_guard lock(mutex_);
    shared_ = true;
  }

  int descriptor(const MemoryBlock& block) const {
    const std::lock_guard lock(mutex_);
    return chunks_.contains(block.data) ? block.fd : -1;  // the parent's: in a forked child
  }

  // Maps every shared segment again at the same address, as a private copy of the parent's bytes.
  // The private segments are such copies since the fork.
  void make_private() const {
    for (auto at = chunks_.begin(); at != chunks_.end();) {
      const Chunk& first = at->second;
      std::size_t nbytes = first.nbytes;
      while (++at != chunks_.end() && at->second.fd_offset > 0) nbytes += at->second.nbytes;
      if (first.fd < 0) continue;  // private
      RINGLET_CHECK(mmap(first.data, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                         first.fd, 0) != MAP_FAILED,
                    "[fork] ", nbytes, " bytes of inherited memory: ", std::strerror(errno));
    }
  }

  MemoryStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void count_sidecar(const MemoryBlock& block, std::ptrdiff_t nbytes) {
    const std::lock_guard lock(mutex_);
    if (!chunks_.contains(block.data)) return;  // the parent's block, in a forked child
    stats_.sidecars += static_cast<std::size_t>(nbytes);
    stats_.sidecars_peak = std::max(stats_.sidecars_peak, stats_.sidecars);
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.allocated;
    stats_.sidecars_peak = stats_.sidecars;
  }
  void set_limit(std::size_t nbytes) {
    const std::lock_guard lock(mutex_);
    stats_.limit = nbytes;
  }

 private:
  std::set<Chunk*, BySize>& free_of(const Chunk& chunk) { return free_[chunk.fd >= 0]; }

  Chunk* map_segment(std::size_t wanted) {
    // At least an eighth of the reserved bytes: a program maps a few times, not for every batch
    // that is longer than all before it. Pages that are never written take no memory.
    const auto map = shared_ ? cpu::map_shared : cpu::map_private;
    cpu::Pages pages = map(std::max({wanted, kSegment, stats_.reserved / 8}));
    if (!pages.data) pages = map(wanted);  // the system may limit mapped memory, too
    if (!pages.data)
      fail("[allocate] ", wanted, " bytes of memory: ", std::strerror(errno), " (",
           stats_.allocated, " in use)");
    stats_.reserved += pages.nbytes;
    ++stats_.system_allocations;
    return add_free({pages.data, pages.nbytes, 0, pages.fd, true});
  }

  Chunk* add_free(const Chunk& chunk) {
    Chunk& added = chunks_[chunk.data] = chunk;
    free_of(added).insert(&added);
    return &added;
  }

  // Keeps the first `wanted` bytes of `chunk`; the rest becomes a free chunk after it.
  void split(Chunk* chunk, std::size_t wanted) {
    add_free(
        {chunk->data + wanted, chunk->nbytes - wanted, chunk->fd_offset + wanted, chunk->fd, true});
    chunk->nbytes = wanted;
  }

  // Appends the next chunk if it is a free part of the same mapping.
  void absorb_next(std::map<std::byte*, Chunk>::iterator at) {
    const auto next = std::next(at);
    if (next == chunks_.end() || next->second.fd_offset == 0 || !next->second.free) return;
    free_of(next->second).erase(&next->second);
    at->second.nbytes += next->second.nbytes;
    chunks_.erase(next);
  }

  Device device_;
  bool shared_;  // the kind of new mappings
  mutable std::mutex mutex_;
  std::array<std::set<Chunk*, BySize>, 2> free_;  // of private segments, of shared ones
  std::map<std::byte*, Chunk> chunks_;
  MemoryStats stats_;
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
  CachingAllocator& of(Device device) const {
    const std::lock_guard lock(mutex_);
    leave_to_parent();
    auto& slot = allocators_[device.index];
    if (!slot) slot = std::make_unique<CachingAllocator>(device, limits_[device.index], shared_);
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
  mutable std::map<int, std::unique_ptr<CachingAllocator>> allocators_;
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
