// The places of a line in order, one per round: the first of those after the one that the previous
// round found. A group of threads takes a line; pairs of threads combine their choices.
#include "ringlet/core/ops/topk.h"

#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/divider.h"
#include "ringlet/cuda/ordering.h"
#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/register.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {
namespace {

/// Lines of at least this length take a block.
constexpr std::int64_t kLongLine = 4096;

template <class T>
struct Lines {
  T* values;  // (outer, k, inner); may be null
  std::int64_t* indices;
  const T* in;  // (outer, n, inner)
  std::int64_t count, n, k;
  Divider inner;
};

template <bool smallest, class S>
__device__ __forceinline__ Placed<S> earlier(const Placed<S>& a, const Placed<S>& b) {
  return comes_before<smallest>(b, a) ? b : a;
}

template <bool smallest, class S>
__device__ __forceinline__ Placed<S> earliest_of_warp(Placed<S> mine) {
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    const Placed<S> other{__shfl_xor_sync(kAllLanes, mine.value, apart),
                          __shfl_xor_sync(kAllLanes, mine.place, apart)};
    mine = earlier<smallest>(mine, other);
  }
  return mine;
}

// All threads of the block get the result; `parts` is reusable on return.
template <bool smallest, class S>
__device__ __forceinline__ Placed<S> earliest_of_block(Placed<S> mine, Placed<S>* parts) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  mine = earliest_of_warp<smallest>(mine);
  if (lane == 0) parts[warp] = mine;
  __syncthreads();
  mine = lane < static_cast<int>(blockDim.x) / kWarp ? parts[lane] : Placed<S>{S{0}, -1};
  mine = earliest_of_warp<smallest>(mine);
  __syncthreads();
  return mine;
}

// One block per line, or (whole_block false) one warp per line.
template <bool smallest, bool whole_block, class T>
__global__ void order_lines(Lines<T> lines) {
  using S = compute_t<T>;
  __shared__ Placed<S> parts[kWarp];
  const int groups = whole_block ? 1 : static_cast<int>(blockDim.x) / kWarp;
  const int threads = whole_block ? static_cast<int>(blockDim.x) : kWarp;
  const int thread = static_cast<int>(threadIdx.x) % threads;
  const std::int64_t step = std::int64_t{gridDim.x} * groups;
  for (std::int64_t line = std::int64_t{blockIdx.x} * groups + threadIdx.x / threads;
       line < lines.count; line += step) {
    const Division at = divide(line, lines.inner);
    const std::int64_t stride = lines.inner.divisor();
    const T* in = lines.in + at.quotient * lines.n * stride + at.remainder;
    const std::int64_t out = at.quotient * lines.k * stride + at.remainder;
    Placed<S> before{S{0}, -1};
    for (std::int64_t round = 0; round < lines.k; ++round) {
      Placed<S> best{S{0}, -1};
      for (std::int64_t i = thread; i < lines.n; i += threads) {
        const Placed<S> e{to_compute(in[i * stride]), i};
        const bool left = round == 0 || comes_before<smallest>(before, e);
        if (left && comes_before<smallest>(e, best)) best = e;
      }
      if constexpr (whole_block) {
        before = earliest_of_block<smallest>(best, parts);
      } else {
        before = earliest_of_warp<smallest>(best);
      }
      if (thread != 0) continue;
      lines.indices[out + round * stride] = before.place;
      if (lines.values) lines.values[out + round * stride] = in[before.place * stride];
    }
  }
}

template <bool smallest, class T>
void run(const TopKArgs& args, Device device) {
  const Lines<T> lines{static_cast<T*>(args.values), args.indices, static_cast<const T*>(args.in),
                       args.outer * args.inner,      args.n,       args.k,
                       Divider(args.inner)};
  if (args.n >= kLongLine)
    return launch("topk", device, order_lines<smallest, true, T>, grid_for(lines.count, 1), 512, 0,
                  lines);
  launch("topk", device, order_lines<smallest, false, T>, grid_for(lines.count, kThreads / kWarp),
         kThreads, 0, lines);
}

void topk(const TopKArgs& args, Device device) {
  dispatch_floating("topk", args.dtype, [&]<class T>() {
    if (args.smallest) return run<true, T>(args, device);
    run<false, T>(args, device);
  });
}

}  // namespace

void register_topk() { topk_kernel.set(DeviceType::cuda, topk); }

}  // namespace ringlet::cuda
