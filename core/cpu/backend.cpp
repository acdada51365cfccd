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
  std::size_t fd_offset;
  int fd;
  bool free;
  Chunk* previous = nullptr;
  Chunk* next = nullptr;
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

  Block allocate(std::size_t nbytes) {
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
    return {chunk->data, chunk->nbytes, chunk->fd, chunk->fd_offset, chunk};
  }

  void release(const Block& block) {
    const std::lock_guard lock(mutex_);
    if (!chunks_.contains(block.data)) return;  // the parent's block, in a forked child
    auto* chunk = static_cast<Chunk*>(block.owner);
    stats_.allocated -= chunk->nbytes;
    chunk->free = true;
    if (chunk->next && chunk->next->free) absorb_next(chunk);
    if (chunk->previous && chunk->previous->free) {
      chunk = chunk->previous;
      free_of(*chunk).erase(chunk);
      absorb(chunk);
    }
    free_of(*chunk).insert(chunk);
  }

  void share() {
    const std::lock_guard lock(mutex_);
    shared_ = true;
  }

  int descriptor(const Block& block) const {
    const std::lock_guard lock(mutex_);
    return chunks_.contains(block.data) ? block.fd : -1;  // the parent's: in a forked child
  }

  // Maps every shared segment again at the same address, as a private copy of the parent's bytes.
  // The private segments are such copies since the fork.
  void make_private() const {
    for (const auto& [data, chunk] : chunks_) {
      if (chunk->previous || chunk->fd < 0) continue;  // inside a segment, or private
      std::size_t nbytes = 0;
      for (const Chunk* part = chunk.get(); part; part = part->next) nbytes += part->nbytes;
      RINGLET_CHECK(mmap(data, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, chunk->fd,
                         0) != MAP_FAILED,
                    "[fork] ", nbytes, " bytes of inherited memory: ", std::strerror(errno));
    }
  }

  MemoryStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void count_sidecar(const Block& block, std::ptrdiff_t nbytes) {
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
    auto& slot = chunks_[pages.data];
    slot = std::make_unique<Chunk>(Chunk{pages.data, pages.nbytes, 0, pages.fd, true});
    free_of(*slot).insert(slot.get());
    return slot.get();
  }

  // Keeps the first `wanted` bytes of `chunk`; the rest becomes a free chunk after it.
  void split(Chunk* chunk, std::size_t wanted) {
    auto rest = std::make_unique<Chunk>(Chunk{chunk->data + wanted, chunk->nbytes - wanted,
                                              chunk->fd_offset + wanted, chunk->fd, true, chunk,
                                              chunk->next});
    if (chunk->next) chunk->next->previous = rest.get();
    chunk->next = rest.get();
    chunk->nbytes = wanted;
    free_of(*rest).insert(rest.get());
    chunks_[rest->data] = std::move(rest);
  }

  void absorb_next(Chunk* chunk) {
    free_of(*chunk).erase(chunk->next);
    absorb(chunk);
  }

  void absorb(Chunk* chunk) {
    Chunk* gone = chunk->next;
    chunk->nbytes += gone->nbytes;
    chunk->next = gone->next;
    if (chunk->next) chunk->next->previous = chunk;
    chunks_.erase(gone->data);
  }

  Device device_;
  bool shared_;  // the kind of new mappings
  mutable std::mutex mutex_;
  std::array<std::set<Chunk*, BySize>, 2> free_;  // of private segments, of shared ones
  std::map<std::byte*, std::unique_ptr<Chunk>> chunks_;
  MemoryStats stats_;
};

class CpuBackend final : public Backend {
 public:
  int device_count() const override {
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  Block allocate(Device device, std::size_t nbytes) override { return of(device).allocate(nbytes); }
  void release(Device device, const Block& block) override { of(device).release(block); }
  void copy(void* to, Device, const void* from, Device, std::size_t nbytes) override {
    if (nbytes > 0) std::memmove(to, from, nbytes);  // slices of one tensor may overlap
  }
  void synchronize(Device) override {}
  MemoryStats memory(Device device) const override {
    MemoryStats stats = of(device).stats();
    stats.scratch = cpu::scratch_bytes();
    return stats;
  }
  void count_sidecar(Device device, const Block& block, std::ptrdiff_t nbytes) override {
    of(device).count_sidecar(block, nbytes);
  }
  void reset_peak(Device device) override { of(device).reset_peak(); }
  void set_limit(Device device, std::size_t nbytes) override {
    of(device).set_limit(nbytes);
    const std::lock_guard lock(mutex_);
    limits_[device.index] = nbytes;
  }
  int descriptor(Device device, const Block& block) const override {
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
