// Sums and maxima of several sources, on a device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ringlet/core/ops/combine.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

template <CombineOp op, class S>
__device__ __forceinline__ S combined(S a, S b) {
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
__device__ __forceinline__ S scaled(S value, S scale) {
  return scale == S{1} ? value : static_cast<S>(value * scale);
}

/// The most sums of a tree over 32 sources that wait below the one that is added to.
inline constexpr int kMostWaiting = 4;

}  // namespace ringlet::cuda
