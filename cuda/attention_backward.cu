// Backward: on tensor cores both passes in one launch, else queries and then keys. Then the
// buckets' sums.
#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/attention_backward_tiles.cuh"
#include "ringlet/cuda/attention_launch.h"
#include "ringlet/cuda/attention_rows.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

constexpr int kWarps = 4;
// Blocks to a multiprocessor: three are 12 warps of 168 registers.
template <int kHead>
constexpr int kTileBlocks = kHead == 32 ? 4 : 3;

/// The slot of this warp, counted over all heads.
__device__ __forceinline__ std::int64_t slot_of_warp(const Slots& slots) {
  return std::int64_t{blockIdx.y} * slots.count + (blockIdx.x * kWarps + threadIdx.x / kLanes);
}

// Half of the blocks have keys, which take longer and so come first; the others have queries.
template <int kHead>
__global__ void __launch_bounds__(kWarps* kLanes, kTileBlocks<kHead>)
    backward_tiles(const AttentionBackwardArgs args, const AttentionWork work, const Slots slots) {
  __shared__ BackwardMemory<float> memory[kWarps];
  const auto body = [&](int lane, auto& own) {
    if (own.item.rows == 0) {
      if (blockIdx.z == 1 && slots.rule.shift == kEveryTile.shift)
        skip_query_pass<float>(lane, work, slot_of_warp(slots));
    } else if (is_for_warp(own.item)) {
      if (blockIdx.z == 0)
        attention_key_pass<kHead>(lane, args, own.item, own);
      else
        attention_query_pass<kHead>(lane, args, work, own.item, own);
    }
  };
  with_item(args.shape, slots, memory, body);
}

template <class T>
__global__ void __launch_bounds__(kWarps* kLanes)
    query_rows(const AttentionBackwardArgs args, const AttentionWork work, const Slots slots) {
  __shared__ BackwardMemory<compute_t<T>> memory[kWarps];
  with_item(args.shape, slots, memory, [&](int lane, auto& own) {
    if (own.item.rows > 0)
      attention_query_rows<T>(lane, args, work, own.item, own);
    else
      skip_query_pass<compute_t<T>>(lane, work, slot_of_warp(slots));
  });
}

template <class T>
__global__ void __launch_bounds__(kWarps* kLanes)
    key_rows(const AttentionBackwardArgs args, const AttentionWork work, const Slots slots) {
  __shared__ BiasMemory<compute_t<T>> memory[kWarps];
  with_item(args.shape, slots, memory, [&](int lane, auto& own) {
    if (own.item.rows > 0) attention_key_rows<T>(lane, args, work, own.item, own.bias);
  });
}

// grad_relative_bias (32, heads) = beta grad_relative_bias + the slots' shares. One block per head,
// one lane per bucket, one warp per part.
template <class S>
__global__ void __launch_bounds__(kBucketParts* kLanes)
    add_buckets(const AttentionBackwardArgs args, const AttentionWork work) {
  __shared__ S parts[kBucketParts][kRelativeBuckets];
  const int bucket = lane_of_thread();
  const int part = static_cast<int>(threadIdx.x / kLanes), head = static_cast<int>(blockIdx.x);
  parts[part][bucket] = sum_buckets(static_cast<const S*>(work.buckets),
                                    attention_slots(args.shape), head, bucket, part);
  __syncthreads();
  if (part > 0) return;
  S total = 0;
  for (int i = 0; i < kBucketParts; ++i) total += parts[i][bucket];
  S& to = static_cast<S*>(args.grad_relative_bias)[bucket * args.shape.heads + head];
  to = args.beta != 0 ? to + total : total;
}

// ---- launchers ----------------------------------------------------------------------------

template <class T>
void run_rows(const AttentionBackwardArgs& args, AttentionWork work, Device device) {
  const AttentionShape& shape = args.shape;
  const Workspace means(
      device, static_cast<std::size_t>(shape.heads * shape.tokens) * sizeof(compute_t<T>));
  work.means = means.data();
  const Slots slots = slots_of(shape);
  const dim3 grid = attention_grid(shape, slots, kWarps);
  launch("attention_backward queries", device, query_rows<T>, grid, kWarps * kLanes, 0, args, work,
         slots);
  launch("attention_backward keys", device, key_rows<T>, grid, kWarps * kLanes, 0, args, work,
         slots);
}

void run_tiles(const AttentionBackwardArgs& args, const AttentionWork& work, std::size_t nbytes,
               Device device) {
  const MixedGrid mixed = mixed_grid(args.shape, kWarps);
  if (work.buckets && mixed.of_warps.rule.shift != kEveryTile.shift) {
    // No warp writes the slots without a tile.
    const DeviceGuard guard(device);
    RINGLET_CUDA(cudaMemsetAsync(work.buckets, 0, nbytes, current_stream(device)));
  }
  attention_backward_long(args, work, mixed, device);
  dim3 grid = checked_grid(args.shape, mixed.warp_blocks);
  grid.z = 2;
  launch("attention_backward", device,
         args.shape.head_size == 32 ? backward_tiles<32> : backward_tiles<64>, grid,
         kWarps * kLanes, 0, args, work, mixed.of_warps);
}

}  // namespace

void attention_backward(const AttentionBackwardArgs& args, Device device) {
  const AttentionShape& shape = args.shape;
  dispatch_floating("attention_backward", shape.dtype, [&]<class T>() {
    using S = compute_t<T>;
    const std::int64_t rows = shape.heads * attention_slots(shape);
    const std::int64_t sums = args.grad_relative_bias ? rows * kRelativeBuckets : 0;
    const Workspace buckets(device, static_cast<std::size_t>(sums) * sizeof(S));
    const AttentionWork work{nullptr, buckets.data()};
    if (takes_tiles(shape, shape.qkv, args.grad, args.out, args.grad_qkv)) {
      run_tiles(args, work, buckets.nbytes(), device);
    } else {
      run_rows<T>(args, work, device);
    }
    if (args.grad_relative_bias)
      launch("attention_backward buckets", device, add_buckets<S>,
             static_cast<unsigned>(shape.heads), kBucketParts * kLanes, 0, args, work);
  });
}

}  // namespace ringlet::cuda
