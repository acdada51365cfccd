// Integer arithmetic that atomics share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace ringlet::emulated {

/// Wraps; floats add as floats.
template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class T>
T lesser_integer(T a, T b) {
  return std::min(a, b);
}
template <class T>
T greater_integer(T a, T b) {
  return std::max(a, b);
}

}  // namespace ringlet::emulated
