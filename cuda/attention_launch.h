// The launchers of attention, and the common start of their kernels.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/warp.cuh"

namespace ringlet::cuda {

inline constexpr std::int64_t kMostHeads = 65535;  // a grid's y

struct AttentionWork;

void attention_backward(const AttentionBackwardArgs& args, Device device);
/// The backward of long sentences on tensor cores, which the other kernel leaves out.
void attention_backward_long(const AttentionBackwardArgs& args, const AttentionWork& work,
                             const MixedGrid& grid, Device device);

inline dim3 checked_grid(const AttentionShape& shape, std::int64_t blocks) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  RINGLET_CHECK(shape.tokens + kTileRows * shape.sentences <= kMost && shape.heads <= kMostHeads &&
                    qkv_stride(shape) <= kMost,
                "[attention] ", shape.tokens, " tokens of ", shape.heads,
                " heads are more than a launch takes");
  return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(shape.heads));
}
/// As many warps as there can be tiles; y is the head.
inline dim3 attention_grid(const AttentionShape& shape, const Slots& slots, int warps) {
  return checked_grid(shape, (slots.count + warps - 1) / warps);
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

/// The index of the sentence that `slot` belongs to; the lanes of a warp search together.
__device__ __forceinline__ int index_of_sentence(const AttentionShape& shape, int slot, int lane,
                                                 SlotRule rule) {
  const int sentences = static_cast<int>(shape.sentences);
  int first = 0;
  for (unsigned count = static_cast<unsigned>(sentences); count > 1;) {  // from `first` on
    count = (count + kLanes - 1) / kLanes;
    const int own = first + static_cast<int>(count) * lane;
    const bool begun = own < sentences && first_slot(shape.cu_seqlens[own], own, rule) <= slot;
    // Sentences that fall are an error that the forward reports, and stay in bounds here.
    first += static_cast<int>(count) * __popc(__ballot_sync(kAllLanes, begun) >> 1);
  }
  return first;
}

/// The sentence that `slot` belongs to, for all lanes of a warp together. It is mostly one of the
/// 32 around the one that the slot would have if all sentences had as many.
__device__ __forceinline__ SlotSentence sentence_of(const AttentionShape& shape, int slot, int lane,
                                                    const Slots& slots) {
  const int even = static_cast<int>(__umulhi(64 * static_cast<unsigned>(slot), slots.density));
  const int first = even > kLanes / 2 ? even - kLanes / 2 : 0;
  // The last element of cu_seqlens is the end of the last sentence, and its slot is beyond all.
  const int sentences = static_cast<int>(shape.sentences);
  const int own = first + lane < sentences ? first + lane : sentences;
  const std::int32_t token = *address_of(shape.cu_seqlens, own, sizeof(std::int32_t));
  const bool begun = first_slot(token, own, slots.rule) <= slot;
  const int last = __popc(__ballot_sync(kAllLanes, begun)) - 1;
  if (static_cast<unsigned>(last) < kLanes - 1)
    return {first + last, __shfl_sync(kAllLanes, token, last),
            __shfl_sync(kAllLanes, token, last + 1)};
  const int found = index_of_sentence(shape, slot, lane, slots.rule);
  return {found, shape.cu_seqlens[found], shape.cu_seqlens[found + 1]};
}

/// The same for a block and its slot; index -1 where the sentence has no rows for blocks. All
/// threads call.
__device__ __forceinline__ SlotSentence long_sentence_of(const AttentionShape& shape, int slot,
                                                         const Slots& slots) {
  __shared__ SlotSentence found;
  if (threadIdx.x < kLanes) {
    const int lane = lane_of_thread();
    SlotSentence sentence = sentence_of(shape, slot, lane, slots);
    if (sentence.end - sentence.begin <= kBlockRows) sentence.index = -1;
    if (lane == 0) found = sentence;
  }
  __syncthreads();
  return found;
}

/// Calls body(lane, its memory with the item) unless the warp is beyond the last item. The lanes of
/// a warp stay together; blocks have no barrier. `block`: counted from the first with these slots.
template <class Memory, int kWarps, class Body>
__device__ __forceinline__ void with_item(const AttentionShape& shape, const Slots& slots,
                                          Memory (&memory)[kWarps], Body body,
                                          int block = static_cast<int>(blockIdx.x)) {
  const int number = static_cast<int>(threadIdx.x / kLanes);
  const int slot = block * kWarps + number;
  if (slot >= slots.count) return;
  const int lane = lane_of_thread();
  const AttentionItem item = attention_item(shape, static_cast<int>(blockIdx.y), slot,
                                            sentence_of(shape, slot, lane, slots), slots.rule);
  if (lane == 0) memory[number].item = item;
  __syncwarp();
  body(lane, memory[number]);
}

}  // namespace ringlet::cuda
