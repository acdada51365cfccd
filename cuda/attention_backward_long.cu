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
    long_tiles(const AttentionBackwardArgs args, const AttentionWork work) {
  extern __shared__ __align__(128) char shared[];
  const AttentionShape& shape = args.shape;
  const AttentionItem tile =
      long_tile(shape, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x / 2));
  if (tile.rows <= 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  float* const bias = reinterpret_cast<float*>(shared);
  const LongBackward block{
      args, tile, shared + kDistances * sizeof(float), bias, thread / kLanes, thread % kLanes};
  if (blockIdx.x % 2 == 0) return long_keys<kHead>(block);
  auto* buckets = static_cast<float*>(work.buckets);
  if (buckets) buckets += tile.index * kRelativeBuckets;
  long_queries<kHead>(block, buckets);
}

}  // namespace

void attention_backward_long(const AttentionBackwardArgs& args, const AttentionWork& work,
                             Device device) {
  const AttentionShape& shape = args.shape;
  const dim3 grid(static_cast<unsigned>(2 * most_long_tiles(shape)),
                  static_cast<unsigned>(shape.heads));
  if (shape.head_size == 32)
    launch("attention_backward long", device, long_tiles<32>, grid, kTileThreads, kLongBytes<32>,
           args, work);
  else
    launch("attention_backward long", device, long_tiles<64>, grid, kTileThreads, kLongBytes<64>,
           args, work);
}

}  // namespace ringlet::cuda
