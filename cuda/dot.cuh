// Inner products of rows, a warp to a row.
#pragma once

#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

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
