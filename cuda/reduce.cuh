// Sums and maxima over a warp or a block, always in the same order.
#pragma once

#include "ringlet/cuda/launch.h"

namespace ringlet::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Sum {
  template <class T>
  static __device__ __forceinline__ T identity() {
    return T{0};
  }
  template <class T>
  static __device__ __forceinline__ T combine(T a, T b) {
    return a + b;
  }
};

/// NaN is ignored, as by fmaxf.
struct Max {
  template <class T>
  static __device__ __forceinline__ T identity() {
    return -INFINITY;
  }
  template <class T>
  static __device__ __forceinline__ T combine(T a, T b) {
    return a < b ? b : a;
  }
};

/// Over the lanes of a full warp, pairs at distance 16 first; all lanes get the result. Both lanes
/// of a pair combine the same two values, so Combine must be commutative.
template <class Combine, class T>
__device__ __forceinline__ T warp_reduce(T value) {
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2)
    value = Combine::combine(value, __shfl_xor_sync(kAllLanes, value, apart));
  return value;
}
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return warp_reduce<Sum>(value);
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
  return warp_reduce<Max>(value);
}

/// Over a one-dimensional block of whole warps (at most 1,024 threads). All threads call and get
/// the result. `parts` is kWarp elements of shared memory, reusable on return.
template <class Combine, class T>
__device__ __forceinline__ T block_reduce(T value, T* parts) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_reduce<Combine>(value);
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  value = warp_reduce<Combine>(lane < warps ? parts[lane] : Combine::template identity<T>());
  __syncthreads();
  return value;
}
template <class T>
__device__ __forceinline__ T block_sum(T value, T* parts) {
  return block_reduce<Sum>(value, parts);
}

}  // namespace ringlet::cuda
