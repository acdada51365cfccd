// The memory of a GPU, without the GPU. Blocks return to the stream that they were made for; a
// stream runs in order, so reuse needs no wait. The source allocates the segments.
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
#include <string>
#include <thread>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/chunk_allocator.h"

namespace ringlet::cuda {

/// Allocates and frees whole segments.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// Null if there is no memory.
  virtual std::byte* take(std::size_t nbytes) = 0;
  /// Waits for all work enqueued on the device so far.
  virtual void give_back(std::byte* segment) = 0;
  /// Text for an out-of-memory error: the memory that the device has.
  virtual std::string situation() const = 0;
};

enum class ReleaseOrder {
  at_once,        // later work on the owner's stream is ordered after the use
  behind_event,   // the owner's stream waits for an event of the user's
  behind_capture  // not before the current capture has ended
};

/// `of_graphs`: the block was made in a capture. An event of a capturing stream is a node of the
/// graph and no point in time. A stream outside that waited for it would join the capture, which
/// then could not end. In reverse, a capturing stream cannot wait for an event outside. Between two
/// streams of one capture an event is an edge. It orders the memory of graphs, but not the use of
/// other memory before the capture.
constexpr ReleaseOrder release_order(bool same_stream, bool user_is_captured,
                                     bool owner_is_captured, bool of_graphs) {
  if (same_stream) return ReleaseOrder::at_once;
  if (user_is_captured != owner_is_captured) return ReleaseOrder::behind_capture;
  return user_is_captured && !of_graphs ? ReleaseOrder::behind_capture : ReleaseOrder::behind_event;
}

class CachingAllocator final : public ChunkAllocator {
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
      : ChunkAllocator(device), source_(source), exact_(exact) {}

  /// At least `nbytes`, for work on `stream`. Error if the limit or the device's memory is
  /// exceeded.
  MemoryBlock allocate(std::size_t nbytes, Stream stream) {
    const std::size_t wanted = up_to(std::max(nbytes, kOne), exact_ ? kOne : kAlignment);
    const std::lock_guard lock(mutex_);
    const bool captured = captures(stream);
    const ChunkPool pool{stream, wanted <= kSmall && !captured, captured};
    // The rest of a large chunk must be worth keeping.
    Chunk* chunk =
        ChunkAllocator::allocate(pool, wanted, pool.small || pool.graphs ? kAlignment : kSmall + 1);
    chunk->capture = pool.graphs ? capture_.number : 0;
    if (pool.graphs) capture_.live += chunk->block.nbytes;
    return chunk->block;
  }

  /// The stream that the block is free for once it is released.
  Stream stream_of(const MemoryBlock& block) const { return chunk_of(block)->pool.stream; }

  bool is_of_graphs(const MemoryBlock& block) const { return chunk_of(block)->pool.graphs; }

  void release(const MemoryBlock& block) {
    const std::lock_guard lock(mutex_);
    Chunk* chunk = chunk_of(block);
    if (chunk->capture != 0 && chunk->capture == capture_.number)
      capture_.live -= chunk->block.nbytes;
    ChunkAllocator::release(chunk);
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

 private:
  struct CaptureState {
    Stream stream = nullptr;  // null: nothing is captured
    Stream branch = nullptr;  // a second one
    std::thread::id thread = {};
    std::uint64_t number = 0;  // of the latest capture
    std::size_t live = 0;      // bytes of its blocks that are in use
  };

  static std::size_t segment_for(const ChunkPool& pool, std::size_t wanted) {
    if (pool.small) return kSmallSegment;
    return wanted <= kMiddle ? kMiddleSegment : up_to(wanted, kLargeStep);
  }
  bool captures(Stream stream) const {
    return stream && (stream == capture_.stream || stream == capture_.branch) &&
           capture_.thread == std::this_thread::get_id();
  }
  void count_graphs(std::ptrdiff_t difference) {
    const std::lock_guard lock(mutex_);
    graphs_ += difference;
  }

  MemoryBlock make_segment(const ChunkPool& pool, std::size_t wanted) override {
    const std::size_t nbytes = exact_ ? wanted : segment_for(pool, wanted);
    std::byte* data = source_.take(nbytes);
    if (!data) give_back_unused(), data = source_.take(nbytes);
    if (!data)
      fail("[allocate] ", wanted, " bytes on ", device_, ": out of memory, ", stats_.allocated,
           " are in use and ", stats_.reserved, " held by this process; ", source_.situation());
    return {data, nbytes};
  }

  // Freeing synchronises with the device, which breaks a capture.
  void give_back_unused() {
    if (capture_.stream) return;
    drop_free_segments(graphs_ == 0,
                       [&](const MemoryBlock& segment) { source_.give_back(segment.data); });
  }

  SegmentSource& source_;
  bool exact_;
  CaptureState capture_;
  std::ptrdiff_t graphs_ = 0;
};

}  // namespace ringlet::cuda
