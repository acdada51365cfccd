// Forward, and the family's entries. A warp takes 16 queries of one head of one sentence, or a
// block takes 64 of a longer one.
#include "ringlet/core/ops/attention.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/attention_forward.cuh"
#include "ringlet/cuda/attention_forward_block.cuh"
#include "ringlet/cuda/attention_launch.h"
#include "ringlet/cuda/attention_rows.cuh"
#include "ringlet/cuda/bad_input.h"
#include "ringlet/cuda/launch.h"

namespace ringlet::cuda {
namespace {

// Three blocks to a multiprocessor: 12 warps of 168 registers.
constexpr int kWarps = 4;

// Warp i checks sentence i: there are at least as many warps as sentences.
__device__ __forceinline__ void check_sentence(const AttentionShape& shape,
                                               const BadInputReport& report) {
  const std::int64_t s = std::int64_t{blockIdx.x} * kWarps + static_cast<int>(threadIdx.x) / kLanes;
  if (blockIdx.y == 0 && s < shape.sentences && !bounds_of(shape).hold(s))
    report(BadInputKind::sentence, s, shape.cu_seqlens[s], shape.cu_seqlens[s + 1]);
}

template <int kHead>
__global__ void __launch_bounds__(kWarps* kLanes, 3)
    forward_tiles(const AttentionArgs args, const MixedGrid grid, const BadInputReport report) {
  check_sentence(args.shape, report);
  __shared__ union {
    BiasMemory<float> warps[kWarps];
    ForwardBlockMemory<kHead> block;
  } memory;
  const int block = static_cast<int>(blockIdx.x);
  const int place = block - (grid.blocks_first ? 0 : grid.warp_blocks);
  if (place >= 0 && place < grid.blocks) {
    const SlotSentence sentence = long_sentence_of(args.shape, place, grid.of_blocks);
    if (sentence.index < 0) return;
    const AttentionItem item = attention_item<kBlockRows>(args.shape, static_cast<int>(blockIdx.y),
                                                          place, sentence, grid.of_blocks.rule);
    if (item.rows == 0 || is_for_warp(item)) return;
    if (threadIdx.x == 0) memory.block.item = item;
    __syncthreads();
    return attention_forward_block(args, memory.block);
  }
  const auto by_warp = [&](int lane, auto& own) {
    if (own.item.rows > 0 && is_for_warp(own.item))
      attention_forward_tile<kHead>(lane, args, own.item, own.bias);
  };
  with_item(args.shape, grid.of_warps, memory.warps, by_warp,
            block - (grid.blocks_first ? grid.blocks : 0));
}

template <class T>
__global__ void __launch_bounds__(kWarps* kLanes)
    forward_rows(const AttentionArgs args, const Slots slots, const BadInputReport report) {
  check_sentence(args.shape, report);
  __shared__ BiasMemory<compute_t<T>> memory[kWarps];
  with_item(args.shape, slots, memory, [&](int lane, auto& own) {
    if (own.item.rows > 0) attention_forward_rows<T>(lane, args, own.item, own.bias);
  });
}

// ---- launchers ----------------------------------------------------------------------------

void attention(const AttentionArgs& args, Device device) {
  const AttentionShape& shape = args.shape;
  if (takes_tiles(shape, shape.qkv, args.out)) {
    const MixedGrid grid = mixed_grid(shape, kWarps);
    return launch("attention", device,
                  shape.head_size == 32 ? forward_tiles<32> : forward_tiles<64>,
                  checked_grid(shape, grid.warp_blocks + grid.blocks), kWarps * kLanes, 0, args,
                  grid, BadInputReport(device));
  }
  dispatch_floating("attention", shape.dtype, [&]<class T>() {
    const Slots slots = slots_of(shape);
    launch("attention", device, forward_rows<T>, attention_grid(shape, slots, kWarps),
           kWarps * kLanes, 0, args, slots, BadInputReport(device));
  });
}

}  // namespace

void register_attention() {
  attention_kernel.set(DeviceType::cuda, attention);
  attention_backward_kernel.set(DeviceType::cuda, attention_backward);
}

}  // namespace ringlet::cuda
