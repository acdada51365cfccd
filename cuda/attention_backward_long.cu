// Backward of long sentences on tensor cores: blocks of 64 queries and blocks of 64 keys in one
// launch.
#include "ringlet/cuda/attention_launch.h"
#include "ringlet/cuda/attention_long_keys.cuh"
#include "ringlet/cuda/attention_long_queries.cuh"

namespace ringlet::cuda {
namespace {

template <int kHead>
inline constexpr unsigned kLongBytes = kDistances * sizeof(float) +
                                       (kKeyBlockBytes<kHead> > kQueryBlockBytes<kHead>
                                            ? kKeyBlockBytes<kHead>
                                            : kQueryBlockBytes<kHead>);

// Three blocks to a multiprocessor: 12 warps of 168 registers.
template <int kHead>
__global__ void __launch_bounds__(kTileThreads, 3)
    long_tiles(const AttentionBackwardArgs args, const AttentionWork work, const Slots slots) {
  extern __shared__ __align__(128) char shared[];
  const int lane = lane_of_thread(), slot = static_cast<int>(blockIdx.x / 2);
  const SlotSentence sentence = long_sentence_of(args.shape, slot, slots);
  if (sentence.index < 0) return;
  const AttentionItem tile = attention_item<kBlockRows>(args.shape, static_cast<int>(blockIdx.y),
                                                        slot, sentence, slots.rule);
  if (tile.rows == 0 || is_for_warp(tile)) return;
  float* const bias = reinterpret_cast<float*>(shared);
  const LongBackward block{
      args, tile, shared + kDistances * sizeof(float), bias, static_cast<int>(threadIdx.x / kLanes),
      lane};
  if (blockIdx.x % 2 == 0) return long_keys<kHead>(block);
  auto* buckets = static_cast<float*>(work.buckets);
  if (buckets) buckets += slot_of(args.shape, tile) * kRelativeBuckets;
  long_queries<kHead>(block, buckets);
}

}  // namespace

void attention_backward_long(const AttentionBackwardArgs& args, const AttentionWork& work,
                             const MixedGrid& grid, Device device) {
  const bool narrow = args.shape.head_size == 32;
  launch("attention_backward long", device, narrow ? long_tiles<32> : long_tiles<64>,
         checked_grid(args.shape, 2 * grid.blocks), kTileThreads,
         narrow ? kLongBytes<32> : kLongBytes<64>, args, work, grid.of_blocks);
}

}  // namespace ringlet::cuda
