// All-reduce within a kernel: the ranks of a launch read each other's memory and signal each other
// as they go; the host does nothing between.
#pragma once

#include "ringlet/core/device.h"
#include "ringlet/core/dtype.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/cuda/all_reduce_plan.h"

namespace ringlet::cuda {

/// What a block takes of a piece at a time, counted in the type that sums are added in: less for
/// less data, and no more.
inline constexpr std::int64_t kLeastChunkBytes = 8 << 10;
inline constexpr std::int64_t kMostChunkBytes = 32 << 10;
/// plan_all_reduce with these.
AllReducePlan plan_all_reduce(Route route, std::span<const std::int64_t> edges, DType dtype,
                              int most_blocks, std::int64_t most_chunk_bytes = kMostChunkBytes);

/// Blocks that each of `ranks` can have in a launch on the device, where nothing else runs.
int most_all_reduce_blocks(Device device, int ranks);

/// data of every rank (n = plan.edge[ranks]) = scale * the sum, or maximum, over all ranks' data,
/// bit for bit as a Group's all_reduce of that algorithm has it on a CPU: bf16 and f16 are added in
/// f32 and rounded once. Addresses are multiples of an element's size; 16 bytes move at a time
/// where those of all ranks are multiples of 16. `scale` is 1 for integers and maxima.
///
/// Runs ranks [0, launched) in the order of the device's current stream: all of the view's, or
/// fewer to see what the others make of it. The launch's blocks run all at once, or it is refused.
/// Error here where an earlier collective over this view failed, or the blocks do not fit. A wait
/// for a peer of more than `seconds` ends all ranks and leaves the data in parts: check_all_reduce
/// then says so. May be captured.
void all_reduce(const PeerView& view, const AllReducePlan& plan, DType dtype, CombineOp op,
                double scale, int launched, double seconds, Device device);

/// Throws where a wait over this view has taken too long, naming ranks and step; what has not run
/// yet cannot have failed. No later collective over it can succeed.
void check_all_reduce(const PeerView& view);

}  // namespace ringlet::cuda
