// All-reduce within a kernel: the ranks of a launch read and signal each other's memory; the host
// takes no part between launch and end.
#pragma once

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/device.h"
#include "ringlet/core/ops/combine.h"
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

/// data of every rank (n = plan.edge[ranks]) = scale * the sum, or maximum, over all ranks' data.
/// The bits equal those of a Group's all_reduce with that algorithm on a CPU. bf16 and f16 are
/// accumulated in f32 and rounded once. Addresses are multiples of an element's size; if those of
/// all ranks are multiples of 16, accesses are of 16 bytes. `scale` is 1 for integers and maxima.
///
/// Enqueues ranks [0, launched) on the device's current stream: all ranks of the view, or fewer to
/// test how their peers react. A cooperative launch: all blocks run concurrently. Error here if an
/// earlier collective over this view failed, or if the blocks do not fit. A wait for a peer of more
/// than `seconds` ends all ranks and leaves the data partly reduced; check_all_reduce then throws.
/// May be captured.
void all_reduce(const PeerView& view, const AllReducePlan& plan, DType dtype, CombineOp op,
                double scale, int launched, double seconds, Device device);

/// Throws if a wait over this view has timed out, naming ranks and step; kernels that have not run
/// yet are not covered. After a timeout every later collective over the view fails.
void check_all_reduce(const PeerView& view);

}  // namespace ringlet::cuda
