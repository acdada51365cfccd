// The arithmetic of combining ranks' elements, as on the CPU.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ringlet/core/base/convert.h"
#include "ringlet/core/ops/combine.h"

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

}  // namespace ringlet::cuda
