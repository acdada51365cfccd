// Sums and maxima over a warp or a block, always in the same order.
#pragma once

#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/types.cuh"

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

/// Rows of a block in kernels that give each row a warp.
inline constexpr int kRowsOfBlock = 4;

/// body(row, lane) for every row of [0, rows), by whole warps.
template <class Body>
__device__ __forceinline__ void for_rows_of_warps(std::int64_t rows, Body&& body) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * warps;
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + threadIdx.x / kWarp; row < rows;
       row += step)
    body(row, lane);
}

/// a . b over n elements; every lane of the warp calls and gets it.
template <class T>
__device__ __forceinline__ compute_t<T> warp_dot(const T* a, const T* b, std::int64_t n, int lane) {
  compute_t<T> sum = 0;
#pragma unroll 8
  for (std::int64_t i = lane; i < n; i += kWarp)
    sum = ::fma(to_compute(a[i]), to_compute(b[i]), sum);
  return warp_sum(sum);
}

}  // namespace ringlet::cuda
