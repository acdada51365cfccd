// Elements converted to their accumulation type and rounded back, on a device.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "ringlet/core/base/convert.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

/// The accumulation type of T: bf16 and f16 are storage only.
template <class T>
using sum_t = std::conditional_t<kIsNarrow<T>, float, T>;

template <CombineOp op, class S>
RINGLET_HOST_DEVICE S combined(S a, S b) {
  if constexpr (op == CombineOp::max) {
    return a != a ? a : (b > a || b != b ? b : a);
  } else if constexpr (std::is_integral_v<S>) {  // wraps around
    return static_cast<S>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

/// Scale 1 returns every value unchanged, including NaN's bits.
template <class S>
RINGLET_HOST_DEVICE S scaled(S value, S scale) {
  return scale == S{1} ? value : static_cast<S>(value * scale);
}

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
