// Memory of the cpu devices: a caching best-fit allocator over memfd mappings, one per device.
#include "ringlet/core/backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "ringlet/core/cpu/register.h"
#include "ringlet/core/error.h"

namespace ringlet {
namespace {

constexpr std::size_t kAlignment = 64;                   // one cache line, one vector
constexpr std::size_t kSegment = std::size_t{32} << 20;  // smallest mapping

// A run of bytes in a mapping; free neighbours are joined, so no two free chunks touch.
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
  CachingAllocator(Device device, std::size_t limit) : device_(device) { stats_.limit = limit; }

  Block allocate(std::size_t nbytes) {
    if (nbytes > PTRDIFF_MAX) fail("[allocate] ", nbytes, " bytes are more than there can be");
    const std::size_t wanted = std::max(kAlignment, (nbytes + kAlignment - 1) & ~(kAlignment - 1));
    const std::lock_guard lock(mutex_);
    RINGLET_CHECK(stats_.limit == 0 || stats_.allocated + wanted <= stats_.limit, "[allocate] ",
                  wanted, " bytes on ", device_, ": ", stats_.allocated,
                  " are in use, the limit is ", stats_.limit);
    Chunk probe{nullptr, wanted, 0, -1, true};
    auto found = free_.lower_bound(&probe);
    Chunk* chunk = found != free_.end() ? *found : map_segment(wanted);
    free_.erase(chunk);
    if (chunk->nbytes > wanted) split(chunk, wanted);
    chunk->free = false;
    stats_.allocated += chunk->nbytes;
    stats_.peak = std::max(stats_.peak, stats_.allocated);
    ++stats_.allocations;
    return {chunk->data, chunk->nbytes, chunk->fd, chunk->fd_offset, chunk};
  }

  void release(const Block& block) {
    const std::lock_guard lock(mutex_);
    if (!chunks_.contains(block.data)) return;  // its parent's, in a forked child
    auto* chunk = static_cast<Chunk*>(block.owner);
    stats_.allocated -= chunk->nbytes;
    chunk->free = true;
    if (chunk->next && chunk->next->free) absorb_next(chunk);
    if (chunk->previous && chunk->previous->free) {
      chunk = chunk->previous;
      free_.erase(chunk);
      absorb(chunk);
    }
    free_.insert(chunk);
  }

  int descriptor(const Block& block) const {
    const std::lock_guard lock(mutex_);
    return chunks_.contains(block.data) ? block.fd : -1;  // its parent's, in a forked child
  }

  // Maps every segment anew in the same place, as a private copy of the parent's bytes.
  void make_private() const {
    for (const auto& [data, chunk] : chunks_) {
      if (chunk->previous) continue;  // inside a segment
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
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.allocated;
  }
  void set_limit(std::size_t nbytes) {
    const std::lock_guard lock(mutex_);
    stats_.limit = nbytes;
  }

 private:
  Chunk* map_segment(std::size_t wanted) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t nbytes = (std::max(wanted, kSegment) + page - 1) & ~(page - 1);
    const int fd = memfd_create("ringlet", MFD_CLOEXEC);
    void* data = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, static_cast<off_t>(nbytes)) == 0)
      data = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      if (fd >= 0) close(fd);
      fail("[allocate] ", nbytes, " bytes of memory: ", std::strerror(error), " (",
           stats_.allocated, " in use)");
    }
    madvise(data, nbytes, MADV_HUGEPAGE);
    stats_.reserved += nbytes;
    ++stats_.system_allocations;
    chunks_[static_cast<std::byte*>(data)] =
        std::make_unique<Chunk>(Chunk{static_cast<std::byte*>(data), nbytes, 0, fd, true});
    Chunk* chunk = chunks_[static_cast<std::byte*>(data)].get();
    free_.insert(chunk);
    return chunk;
  }

  // Keeps the first `wanted` bytes of `chunk`; the rest becomes a free chunk behind it.
  void split(Chunk* chunk, std::size_t wanted) {
    auto rest = std::make_unique<Chunk>(Chunk{chunk->data + wanted, chunk->nbytes - wanted,
                                              chunk->fd_offset + wanted, chunk->fd, true, chunk,
                                              chunk->next});
    if (chunk->next) chunk->next->previous = rest.get();
    chunk->next = rest.get();
    chunk->nbytes = wanted;
    free_.insert(rest.get());
    chunks_[rest->data] = std::move(rest);
  }

  void absorb_next(Chunk* chunk) {
    free_.erase(chunk->next);
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
  mutable std::mutex mutex_;
  std::set<Chunk*, BySize> free_;
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
    std::memmove(to, from, nbytes);  // slices of one tensor may overlap
  }
  void synchronize(Device) override {}
  MemoryStats memory(Device device) const override { return of(device).stats(); }
  void reset_peak(Device device) override { of(device).reset_peak(); }
  void set_limit(Device device, std::size_t nbytes) override {
    of(device).set_limit(nbytes);
    const std::lock_guard lock(mutex_);
    limits_[device.index] = nbytes;
  }
  int descriptor(Device device, const Block& block) const override {
    return block.fd < 0 ? -1 : of(device).descriptor(block);
  }
  void own_inherited_memory() override {
    if (process_ == getpid()) return;
    for (const auto& [index, allocator] : allocators_) allocator->make_private();
  }

 private:
  CachingAllocator& of(Device device) const {
    const std::lock_guard lock(mutex_);
    // The mappings are shared with the parent of a forked child, its free lists are not: the child
    // starts with allocators of its own and leaves the parent's bytes alone.
    if (process_ != getpid()) {
      for (auto& [index, allocator] : allocators_) static_cast<void>(allocator.release());
      allocators_.clear();
      process_ = getpid();
    }
    auto& slot = allocators_[device.index];
    if (!slot) slot = std::make_unique<CachingAllocator>(device, limits_[device.index]);
    return *slot;
  }
  mutable std::mutex mutex_;
  mutable std::map<int, std::unique_ptr<CachingAllocator>> allocators_;
  mutable std::map<int, std::size_t> limits_;  // kept by a forked child
  mutable pid_t process_ = getpid();
};

}  // namespace

void register_cpu() {
  // Never destroyed: tensors with static storage may outlive every other object.
  static auto* backend = new CpuBackend;
  set_backend(DeviceType::cpu, backend);
  cpu::register_kernels();
}

}  // namespace ringlet
