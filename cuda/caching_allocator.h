// The bookkeeping of device memory, without a device: blocks are cut from segments and go back to
// the stream that they were made for, which runs in order, so a block is used again without
// waiting. What segments are made of is the source's business.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "ringlet/core/backend.h"
#include "ringlet/core/error.h"

namespace ringlet::cuda {

/// Gives and takes back whole segments.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// Null where there is no memory.
  virtual std::byte* take(std::size_t nbytes) = 0;
  /// After all work that was given to the device so far.
  virtual void give_back(std::byte* segment) = 0;
  /// What to say beside "out of memory": what the device has.
  virtual std::string situation() const = 0;
};

class CachingAllocator {
 public:
  using Stream = const void*;
  static constexpr std::size_t kAlignment = 512, kOne = 1;
  /// Blocks up to kSmall share segments of kSmallSegment, those up to kMiddle of kMiddleSegment;
  /// larger ones have their own, in whole kLargeStep: small ones do not hold large segments.
  static constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  static constexpr std::size_t kSmall = 1 * kMebibyte, kSmallSegment = 2 * kMebibyte;
  static constexpr std::size_t kMiddle = 10 * kMebibyte, kMiddleSegment = 20 * kMebibyte;
  static constexpr std::size_t kLargeStep = 2 * kMebibyte;

  /// `exact`: every block is a segment of its own and goes back at once, for tools to see its end.
  CachingAllocator(Device device, SegmentSource& source, bool exact = false)
      : device_(device), source_(source), exact_(exact) {}

  /// At least `nbytes`, for work on `stream`. Error where the limit or the memory ends.
  Block allocate(std::size_t nbytes, Stream stream) {
    const std::size_t wanted = up_to(std::max(nbytes, kOne), exact_ ? kOne : kAlignment);
    const std::lock_guard lock(mutex_);
    RINGLET_CHECK(stats_.limit == 0 || stats_.allocated + wanted <= stats_.limit, "[allocate] ",
                  wanted, " bytes on ", device_, ": ", stats_.allocated,
                  " are in use, the limit is ", stats_.limit);
    const Pool pool{stream, wanted <= kSmall};
    Chunk* chunk = best_fit(pool, wanted);
    if (!chunk) chunk = add_segment(pool, wanted);
    free_[pool].erase(chunk);
    // The rest of a large chunk must be worth keeping.
    if (chunk->nbytes - wanted >= (pool.small ? kAlignment : kSmall + 1)) split(chunk, wanted);
    chunk->free = false;
    stats_.allocated += chunk->nbytes;
    stats_.peak = std::max(stats_.peak, stats_.allocated);
    ++stats_.allocations;
    return {chunk->data, chunk->nbytes, -1, 0, chunk};
  }

  /// The stream that the block is free for once it is released.
  Stream stream_of(const Block& block) const { return chunk_of(block)->pool.stream; }

  void release(const Block& block) {
    const std::lock_guard lock(mutex_);
    Chunk* chunk = chunk_of(block);
    stats_.allocated -= chunk->nbytes;
    chunk->free = true;
    if (chunk->next && chunk->next->free) absorb_next(chunk);
    if (chunk->previous && chunk->previous->free) {
      chunk = chunk->previous;
      free_[chunk->pool].erase(chunk);
      absorb_next(chunk);
    }
    free_[chunk->pool].insert(chunk);
    if (exact_) give_back_unused();
  }

  /// Gives segments that nothing is in use of back to the source.
  void trim() {
    const std::lock_guard lock(mutex_);
    give_back_unused();
  }

  MemoryStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void count_sidecar(std::ptrdiff_t nbytes) {
    const std::lock_guard lock(mutex_);
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
  struct Pool {
    Stream stream;
    bool small;
    auto operator<=>(const Pool&) const = default;
  };
  // A run of bytes in a segment; free neighbours are joined, so no two free chunks touch.
  struct Chunk {
    std::byte* data;
    std::size_t nbytes;
    Pool pool;
    bool free = true;
    Chunk* previous = nullptr;
    Chunk* next = nullptr;
  };
  struct BySize {
    bool operator()(const Chunk* a, const Chunk* b) const {
      return a->nbytes != b->nbytes ? a->nbytes < b->nbytes : a->data < b->data;
    }
  };

  static std::size_t up_to(std::size_t nbytes, std::size_t step) {
    if (nbytes > PTRDIFF_MAX) fail("[allocate] ", nbytes, " bytes are more than there can be");
    return (nbytes + step - 1) / step * step;
  }
  static std::size_t segment_for(std::size_t wanted) {
    if (wanted <= kSmall) return kSmallSegment;
    return wanted <= kMiddle ? kMiddleSegment : up_to(wanted, kLargeStep);
  }
  static Chunk* chunk_of(const Block& block) { return static_cast<Chunk*>(block.owner); }

  Chunk* best_fit(const Pool& pool, std::size_t wanted) {
    Chunk probe{nullptr, wanted, pool};
    std::set<Chunk*, BySize>& fitting = free_[pool];
    const auto found = fitting.lower_bound(&probe);
    return found == fitting.end() ? nullptr : *found;
  }

  Chunk* add_segment(const Pool& pool, std::size_t wanted) {
    const std::size_t nbytes = exact_ ? wanted : segment_for(wanted);
    std::byte* data = source_.take(nbytes);
    if (!data) give_back_unused(), data = source_.take(nbytes);
    if (!data)
      fail("[allocate] ", wanted, " bytes on ", device_, ": out of memory, ", stats_.allocated,
           " are in use and ", stats_.reserved, " held by this process; ", source_.situation());
    stats_.reserved += nbytes;
    ++stats_.system_allocations;
    auto& slot = chunks_[data];
    slot = std::make_unique<Chunk>(Chunk{data, nbytes, pool});
    free_[pool].insert(slot.get());
    return slot.get();
  }

  void give_back_unused() {
    for (auto& [pool, chunks] : free_)
      std::erase_if(chunks, [&](Chunk* chunk) {
        if (chunk->previous || chunk->next) return false;
        source_.give_back(chunk->data);
        stats_.reserved -= chunk->nbytes;
        chunks_.erase(chunk->data);
        return true;
      });
  }

  // Keeps the first `wanted` bytes of `chunk`; the rest becomes a free chunk behind it.
  void split(Chunk* chunk, std::size_t wanted) {
    auto rest = std::make_unique<Chunk>(
        Chunk{chunk->data + wanted, chunk->nbytes - wanted, chunk->pool, true, chunk, chunk->next});
    if (chunk->next) chunk->next->previous = rest.get();
    chunk->next = rest.get();
    chunk->nbytes = wanted;
    free_[chunk->pool].insert(rest.get());
    chunks_[rest->data] = std::move(rest);
  }

  void absorb_next(Chunk* chunk) {
    Chunk* gone = chunk->next;
    free_[gone->pool].erase(gone);
    chunk->nbytes += gone->nbytes;
    chunk->next = gone->next;
    if (chunk->next) chunk->next->previous = chunk;
    chunks_.erase(gone->data);
  }

  Device device_;
  SegmentSource& source_;
  bool exact_;
  mutable std::mutex mutex_;
  std::map<Pool, std::set<Chunk*, BySize>> free_;
  std::map<std::byte*, std::unique_ptr<Chunk>> chunks_;
  MemoryStats stats_;
};

}  // namespace ringlet::cuda
