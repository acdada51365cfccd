// The bookkeeping of a device's memory. Blocks are chunks of segments; free chunks are kept, and
// the smallest that is large enough serves the next block of its pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/memory.h"

namespace ringlet {

struct ChunkPool {
  const void* stream = nullptr;  // on a GPU: the owner, the stream that uses the bytes
  bool small = false;
  bool graphs = false;  // bytes that captured work uses: they are kept as long as graphs exist
  bool shared = false;  // other processes can map the bytes
  auto operator<=>(const ChunkPool&) const = default;
};

/// A run of bytes in a segment. Free neighbours are merged, so no two free chunks are adjacent.
struct Chunk {
  MemoryBlock block;  // its owner is this chunk
  ChunkPool pool;
  std::uint64_t capture = 0;  // the capture that allocated it; 0: none
  bool free = false;
  Chunk* previous = nullptr;
  Chunk* next = nullptr;
};

/// The part that all devices share. Derived classes choose pools and sizes, under mutex_.
class ChunkAllocator {
 public:
  explicit ChunkAllocator(Device device, std::size_t limit = 0) : device_(device) {
    stats_.limit = limit;
  }
  virtual ~ChunkAllocator() = default;
  ChunkAllocator(const ChunkAllocator&) = delete;
  ChunkAllocator& operator=(const ChunkAllocator&) = delete;

  MemoryStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  /// Counts a sidecar of `nbytes` in this block, unless another process has allocated it.
  void count_sidecar(const MemoryBlock& block, std::ptrdiff_t nbytes) {
    const std::lock_guard lock(mutex_);
    if (!owns(block)) return;
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

 protected:
  /// A new segment of at least `wanted` bytes; Error if there is no memory.
  virtual MemoryBlock make_segment(const ChunkPool& pool, std::size_t wanted) = 0;

  static std::size_t up_to(std::size_t nbytes, std::size_t step) {
    if (nbytes > PTRDIFF_MAX) fail("[allocate] ", nbytes, " bytes are more than there can be");
    return (nbytes + step - 1) / step * step;
  }
  static Chunk* chunk_of(const MemoryBlock& block) { return static_cast<Chunk*>(block.owner); }
  bool owns(const MemoryBlock& block) const { return chunks_.contains(block.data); }

  /// `wanted` bytes, and the rest of their chunk if that has fewer than `least_rest`.
  Chunk* allocate(const ChunkPool& pool, std::size_t wanted, std::size_t least_rest) {
    check_limit(device_, wanted, stats_);
    FreeChunks& fitting = free_[pool];
    Chunk probe{{nullptr, wanted}, pool};
    const auto found = fitting.lower_bound(&probe);
    Chunk* chunk = found != fitting.end() ? *found : add_segment(pool, wanted);
    if (found != fitting.end()) fitting.erase(found);
    chunk->free = false;
    if (chunk->block.nbytes - wanted >= least_rest) split(chunk, wanted);
    stats_.allocated += chunk->block.nbytes;
    stats_.peak = std::max(stats_.peak, stats_.allocated);
    ++stats_.allocations;
    return chunk;
  }

  void release(Chunk* chunk) {
    stats_.allocated -= chunk->block.nbytes;
    chunk->free = true;
    if (chunk->next && chunk->next->free) absorb_next(chunk);
    if (chunk->previous && chunk->previous->free) {
      chunk = chunk->previous;
      free_[chunk->pool].erase(chunk);
      absorb_next(chunk);
    }
    free_[chunk->pool].insert(chunk);
  }

  /// Forgets the segments that are entirely free, after gone(block); those of graphs only if
  /// `graphs`.
  template <class Gone>
  void drop_free_segments(bool graphs, const Gone& gone) {
    for (auto& [pool, chunks] : free_) {
      if (pool.graphs && !graphs) continue;
      std::erase_if(chunks, [&](Chunk* chunk) {
        if (chunk->previous || chunk->next) return false;
        const MemoryBlock block = chunk->block;
        gone(block);
        count_reserved(chunk->pool, -static_cast<std::ptrdiff_t>(block.nbytes));
        chunks_.erase(block.data);
        return true;
      });
    }
  }

  const Device device_;
  mutable std::mutex mutex_;
  MemoryStats stats_;
  std::map<std::byte*, Chunk> chunks_;

 private:
  struct BySize {
    bool operator()(const Chunk* a, const Chunk* b) const {
      return a->block.nbytes != b->block.nbytes ? a->block.nbytes < b->block.nbytes
                                                : a->block.data < b->block.data;
    }
  };
  using FreeChunks = std::set<Chunk*, BySize>;

  void count_reserved(const ChunkPool& pool, std::ptrdiff_t nbytes) {
    stats_.reserved += static_cast<std::size_t>(nbytes);
    if (pool.graphs) stats_.graphs += static_cast<std::size_t>(nbytes);
  }

  Chunk* add(Chunk chunk) {
    Chunk& added = chunks_[chunk.block.data] = chunk;
    added.block.owner = &added;
    return &added;
  }
  Chunk* add_segment(const ChunkPool& pool, std::size_t wanted) {
    const MemoryBlock segment = make_segment(pool, wanted);
    count_reserved(pool, static_cast<std::ptrdiff_t>(segment.nbytes));
    ++stats_.system_allocations;
    return add({segment, pool});
  }

  // Keeps the first `wanted` bytes of `chunk`; the rest becomes a free chunk after it.
  void split(Chunk* chunk, std::size_t wanted) {
    const auto& [data, nbytes, fd, offset, owner] = chunk->block;
    Chunk* rest = add({{data + wanted, nbytes - wanted, fd, offset + wanted},
                       chunk->pool,
                       0,
                       true,
                       chunk,
                       chunk->next});
    if (chunk->next) chunk->next->previous = rest;
    chunk->next = rest;
    chunk->block.nbytes = wanted;
    free_[chunk->pool].insert(rest);
  }

  void absorb_next(Chunk* chunk) {
    Chunk* gone = chunk->next;
    free_[gone->pool].erase(gone);
    chunk->block.nbytes += gone->block.nbytes;
    chunk->next = gone->next;
    if (chunk->next) chunk->next->previous = chunk;
    chunks_.erase(gone->block.data);
  }

  std::map<ChunkPool, FreeChunks> free_;
};

}  // namespace ringlet
