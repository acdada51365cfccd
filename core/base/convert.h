// Conversion of one element to another type, the same on every device.
#pragma once

#include <limits>
#include <type_traits>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/base/host_device.h"

namespace ringlet {

/// Rounds towards zero. Values out of range become the nearest value in range, NaN becomes 0.
template <class To, class From>
RINGLET_HOST_DEVICE To truncate(From value) {
  using Limits = std::numeric_limits<To>;
  constexpr From low = static_cast<From>(Limits::min());              // both are powers of two,
  constexpr From end = static_cast<From>(Limits::max() / 2 + 1) * 2;  // hence exact
  if (value >= end) return Limits::max();
  if (value > low) return static_cast<To>(value);
  return value == value ? Limits::min() : To{0};
}

template <class T>
inline constexpr bool kIsNarrow = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

/// f16 and bf16 convert through float, all other types directly.
template <class To, class From>
RINGLET_HOST_DEVICE To convert(From value) {
  if constexpr (kIsNarrow<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (kIsNarrow<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace ringlet
