// Elements converted to their accumulation type and rounded back, on a device.
#pragma once

#include <cuda_fp16.h>

#include "ringlet/cuda/combine.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

/// The most sums of a tree over 32 sources that wait below the one that is added to.
inline constexpr int kMostWaiting = 4;

template <class T>
__device__ __forceinline__ sum_t<T> read(const T* from) {
  if constexpr (std::is_same_v<T, float16>) {
    return __half2float(__ushort_as_half(from->bits));
  } else {
    return to_compute(*from);
  }
}

template <class T>
__device__ __forceinline__ T rounded(sum_t<T> value) {
  if constexpr (std::is_same_v<T, float16>) {
    float16 half;
    half.bits = __half_as_ushort(__float2half_rn(value));
    return half;
  } else {
    return from_compute<T>(value);
  }
}

}  // namespace ringlet::cuda
