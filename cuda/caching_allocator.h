// The bookkeeping of device memory, without a device. Blocks are cut from segments and return to
// the stream that they were made for; a stream runs in order, so reuse needs no wait. The source
// allocates the segments.
//
// Captured work keeps the addresses that it was captured with. Its blocks come from segments that
// all graphs of a device share: graphs run sequentially, so each may use all of it. Block sizes are
// not separated there, as a tensor may be small in one graph and large in the next. No such segment
// is returned alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/memory.h"
#include "ringlet/cuda/chunks.h"
#include "ringlet/cuda/segment_source.h"

namespace ringlet::cuda {

class CachingAllocator {
 public:
  using Stream = const void*;
  static constexpr std::size_t kAlignment = 512, kOne = 1;
  /// Blocks up to kSmall share segments of kSmallSegment, those up to kMiddle of kMiddleSegment.
  /// Larger blocks have a dedicated segment, a multiple of kLargeStep. So small blocks do not hold
  /// large segments.
  static constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  static constexpr std::size_t kSmall = 1 * kMebibyte, kSmallSegment = 2 * kMebibyte;
  static constexpr std::size_t kMiddle = 10 * kMebibyte, kMiddleSegment = 20 * kMebibyte;
  static constexpr std::size_t kLargeStep = 2 * kMebibyte;

  /// `exact`: every block is a separate segment and is freed immediately, so that tools detect
  /// accesses beyond its end.
  CachingAllocator(Device device, SegmentSource& source, bool exact = false)
      : device_(device), source_(source), exact_(exact) {}

  /// At least `nbytes`, for work on `stream`. Error if the limit or the device's memory is
  /// exceeded.
  MemoryBlock allocate(std::size_t nbytes, Stream stream) {
    const std::size_t wanted = up_to(std::max(nbytes, kOne), exact_ ? kOne : kAlignment);
    const std::lock_guard lock(mutex_);
    check_limit(device_, wanted, stats_);
    const bool captured = captures(stream);
    const ChunkPool pool{stream, wanted <= kSmall && !captured, captured};
    Chunk* chunk = chunks_.take(pool, wanted);
    if (!chunk) chunk = add_segment(pool, wanted);
    // The rest of a large chunk must be worth keeping.
    if (chunk->nbytes - wanted >= (pool.small || pool.graphs ? kAlignment : kSmall + 1))
      chunks_.split(chunk, wanted);
    chunk->capture = pool.graphs ? capture_.number : 0;
    if (pool.graphs) capture_.live += chunk->nbytes;
    stats_.allocated += chunk->nbytes;
    stats_.peak = std::max(stats_.peak, stats_.allocated);
    ++stats_.allocations;
    return {chunk->data, chunk->nbytes, -1, 0, chunk};
  }

  /// The stream that the block is free for once it is released.
  Stream stream_of(const MemoryBlock& block) const { return chunk_of(block)->pool.stream; }

  bool is_of_graphs(const MemoryBlock& block) const { return chunk_of(block)->pool.graphs; }

  void release(const MemoryBlock& block) {
    const std::lock_guard lock(mutex_);
    Chunk* chunk = chunk_of(block);
    stats_.allocated -= chunk->nbytes;
    if (chunk->capture != 0 && chunk->capture == capture_.number) capture_.live -= chunk->nbytes;
    chunks_.put_back(chunk);
    if (exact_) give_back_unused();
  }

  /// Until end_capture(), allocations of this thread for `stream` come from the graphs' memory.
  void begin_capture(Stream stream) {
    const std::lock_guard lock(mutex_);
    RINGLET_CHECK(!exact_, "[graph] with RINGLET_CUDA_EXACT no block outlives its use");
    RINGLET_CHECK(!capture_.stream, "[graph] work of ", device_, " is being captured already");
    capture_ = {stream, nullptr, std::this_thread::get_id(), capture_.number + 1, 0};
  }
  /// In a capture: so do those for `branch`, a stream that is part of it.
  void join_capture(Stream branch) {
    const std::lock_guard lock(mutex_);
    RINGLET_CHECK(capture_.stream, "[graph] no work of ", device_, " is being captured");
    capture_.branch = branch;
  }
  /// The bytes allocated since begin_capture() that are still in use: the next capture would
  /// overwrite them.
  std::size_t end_capture() {
    const std::lock_guard lock(mutex_);
    capture_.stream = capture_.branch = nullptr;
    return capture_.live;
  }
  /// A graph that uses addresses of the graphs' memory is created, or destroyed.
  void add_graph() { count_graphs(1); }
  void remove_graph() { count_graphs(-1); }

  /// Returns unused segments to the source.
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
  struct CaptureState {
    Stream stream = nullptr;  // null: nothing is captured
    Stream branch = nullptr;  // a second one
    std::thread::id thread = {};
    std::uint64_t number = 0;  // of the latest capture
    std::size_t live = 0;      // bytes of its blocks that are in use
  };

  static std::size_t up_to(std::size_t nbytes, std::size_t step) {
    if (nbytes > PTRDIFF_MAX) fail("[allocate] ", nbytes, " bytes are more than there can be");
    return (nbytes + step - 1) / step * step;
  }
  static std::size_t segment_for(const ChunkPool& pool, std::size_t wanted) {
    if (pool.small) return kSmallSegment;
    return wanted <= kMiddle ? kMiddleSegment : up_to(wanted, kLargeStep);
  }
  static Chunk* chunk_of(const MemoryBlock& block) { return static_cast<Chunk*>(block.owner); }

  bool captures(Stream stream) const {
    return stream && (stream == capture_.stream || stream == capture_.branch) &&
           capture_.thread == std::this_thread::get_id();
  }
  void count_graphs(std::ptrdiff_t difference) {
    const std::lock_guard lock(mutex_);
    graphs_ += difference;
  }

  Chunk* add_segment(const ChunkPool& pool, std::size_t wanted) {
    const std::size_t nbytes = exact_ ? wanted : segment_for(pool, wanted);
    std::byte* data = source_.take(nbytes);
    if (!data) give_back_unused(), data = source_.take(nbytes);
    if (!data)
      fail("[allocate] ", wanted, " bytes on ", device_, ": out of memory, ", stats_.allocated,
           " are in use and ", stats_.reserved, " held by this process; ", source_.situation());
    stats_.reserved += nbytes;
    if (pool.graphs) stats_.graphs += nbytes;
    ++stats_.system_allocations;
    return chunks_.add(pool, data, nbytes);
  }

  // Freeing synchronises with the device, which breaks a capture.
  void give_back_unused() {
    if (capture_.stream) return;
    chunks_.drop_free_segments(graphs_ == 0, [&](const Chunk& chunk) {
      source_.give_back(chunk.data);
      stats_.reserved -= chunk.nbytes;
      if (chunk.pool.graphs) stats_.graphs -= chunk.nbytes;
    });
  }

  Device device_;
  SegmentSource& source_;
  bool exact_;
  mutable std::mutex mutex_;
  Chunks chunks_;
  CaptureState capture_;
  std::ptrdiff_t graphs_ = 0;
  MemoryStats stats_;
};

}  // namespace ringlet::cuda
