// The launchers of attention, and the common start of their kernels.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_bias.h"
#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/warp.cuh"

namespace ringlet::cuda {

void attention_backward(const AttentionBackwardArgs& args, Device device);

inline unsigned attention_grid(const AttentionShape& shape, int warps) {
  const std::int64_t blocks = attention_blocks(shape, warps);
  RINGLET_CHECK(blocks <= std::numeric_limits<std::int32_t>::max(), "[attention] ", shape.tokens,
                " tokens of ", shape.heads, " heads are more than a launch takes");
  return static_cast<unsigned>(blocks);
}

/// Whether the tensor-core kernels can run; `pointers` are all addresses of 16-byte accesses.
template <class... Pointers>
bool takes_tiles(const AttentionShape& shape, const Pointers*... pointers) {
  const bool narrow = shape.heads < std::numeric_limits<std::int32_t>::max() / (6 * 64);
  return shape.dtype == DType::bf16 && (shape.head_size == 32 || shape.head_size == 64) && narrow &&
         aligned16(static_cast<const void*>(pointers)...);
}

/// Shared memory of a warp that needs the bias alone.
template <class S>
struct BiasMemory {
  AttentionItem item;  // in shared memory to save registers
  S bias[kDistances];
};

/// Calls body(warp, its memory with the item) unless the warp is beyond the last item. The lanes of
/// a warp stay together; blocks have no barrier.
template <class Memory, int kWarps, class Body>
__device__ __forceinline__ void with_item(const AttentionShape& shape, Memory (&memory)[kWarps],
                                          Body body) {
  const int number = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + number;
  if (index >= attention_slots(shape) * shape.heads) return;
  const DeviceWarp warp{static_cast<int>(threadIdx.x) % kLanes};
  const AttentionItem item = attention_item(shape, index);
  if (warp.lane == 0) memory[number].item = item;
  warp.sync();
  body(warp, memory[number]);
}

}  // namespace ringlet::cuda
