// All-reduce within a kernel: ranks read and signal each other's memory, on one device or on
// several with peer access; the host takes no part between launch and end.
#pragma once

#include <atomic>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/device.h"
#include "ringlet/core/device/device_objects.h"
#include "ringlet/cuda/all_reduce_plan.h"

namespace ringlet::cuda {

/// Bounds of the bytes of a piece that a block processes at a time, counted in the accumulation
/// type. Smaller data takes smaller chunks.
inline constexpr std::int64_t kLeastChunkBytes = 8 << 10;
inline constexpr std::int64_t kMostChunkBytes = 32 << 10;
/// plan_all_reduce with these bounds.
AllReducePlan plan_all_reduce(CombineRoute route, std::span<const std::int64_t> edges, DType dtype,
                              int most_blocks, std::int64_t most_chunk_bytes = kMostChunkBytes);

/// The most blocks for each of `ranks` in one launch, if nothing else runs on the device.
int most_all_reduce_blocks(Device device, int ranks);

/// The most blocks of one device if ranks lie on several: the others are for computation that runs
/// beside the collective.
inline constexpr int kMostBlocksAcross = 24;

/// The collective of core/device/device_objects.h, over the data of `view` and the pieces of
/// `plan`. The bits equal those of a Group's collective with that algorithm on a CPU. If the
/// addresses of all ranks are multiples of 16, accesses are of 16 bytes.
///
/// Enqueues the ranks `launched`, which lie on the device, on its current stream; the other ranks
/// of the view are launched on theirs. A cooperative launch: all blocks run concurrently. Error
/// here if an earlier collective over this view failed, or if the blocks do not fit. A wait for a
/// peer of more than `seconds` ends all ranks and leaves the data partly reduced; check_all_reduce
/// then throws.
void all_reduce(const PeerView& view, const AllReducePlan& plan, const PeerCall& call,
                std::span<const int> launched, double seconds, Device device);
/// Loads the kernel of such a call.
void load_all_reduce(const PeerCall& call, Device device);

/// Throws if a wait over this view has timed out, naming ranks and step; kernels that have not run
/// yet are not covered. After a timeout every later collective over the view fails.
inline void check_all_reduce(const PeerView& view) {
  const std::uint64_t word = std::atomic_ref(*view.error).load();
  if (word == Stall::kAbandoned) fail("[all_reduce] ended, because a rank has failed");
  if (word != 0) fail("[all_reduce] ", describe(Stall::of(word)));
}

}  // namespace ringlet::cuda
