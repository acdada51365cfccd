// Integer arithmetic (PTX manual, 9.7.1): overflow wraps.
#include <algorithm>
#include <concepts>
#include <limits>
#include <tuple>

#include "operations.h"

namespace ringlet::emulated {
namespace {

// A type in which products do not overflow.
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;
template <class T>
using Wide = std::conditional_t<std::is_signed_v<T>, Int128, Uint128>;
template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <std::integral T>
T sum_of(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
}
template <std::integral T>
T subtract(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) - static_cast<u64>(b));
}
template <std::integral T>
T multiply_low(T a, T b) {
  return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
}
template <std::integral T>
T multiply_high(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) * b >> (8 * sizeof(T)));
}
template <std::integral T>
T multiply_add_low(T a, T b, T c) {
  return sum_of(multiply_low(a, b), c);
}
template <class T, class R>
R multiply_wide(T a, T b) {
  return static_cast<R>(static_cast<R>(a) * static_cast<R>(b));
}
template <class T, class R>
R multiply_add_wide(T a, T b, R c) {
  return sum_of(multiply_wide<T, R>(a, b), c);
}
// The manual leaves division by zero unspecified; GPUs return all ones.
template <std::integral T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return subtract(T{0}, a);
  return static_cast<T>(a / b);
}
template <std::integral T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
template <std::integral T>
T lesser(T a, T b) {
  return std::min(a, b);
}
template <std::integral T>
T greater(T a, T b) {
  return std::max(a, b);
}
template <std::integral T>
T negate(T a) {
  return subtract(T{0}, a);
}
template <std::integral T>
T absolute(T a) {
  return a < 0 ? negate(a) : a;
}
// Shifts beyond the width yield zeros, or the sign bit in every position.
template <std::integral T>
T shift_right(T a, u32 by) {
  constexpr u32 kBits = 8 * sizeof(T);
  return static_cast<T>(by < kBits ? a >> by : a < 0 ? -1 : 0);
}
template <std::integral T>
T shift_left(T a, u32 by) {
  return by < 8 * sizeof(T) ? static_cast<T>(static_cast<u64>(a) << by) : T{0};
}

}  // namespace

void add_integer_operations(Operations& to) {
  for_types<i16, u16, i32, u32, i64, u64>([&]<class T>(T) {
    const std::string type = suffix<T>();
    to["add" + type] = lanewise<sum_of<T>, T, T, T>();
    to["sub" + type] = lanewise<subtract<T>, T, T, T>();
    to["mul.lo" + type] = lanewise<multiply_low<T>, T, T, T>();
    to["mul.hi" + type] = lanewise<multiply_high<T>, T, T, T>();
    to["mad.lo" + type] = lanewise<multiply_add_low<T>, T, T, T, T>();
    to["div" + type] = lanewise<divide<T>, T, T, T>();
    to["rem" + type] = lanewise<remainder<T>, T, T, T>();
    to["min" + type] = lanewise<lesser<T>, T, T, T>();
    to["max" + type] = lanewise<greater<T>, T, T, T>();
    to["shr" + type] = lanewise<shift_right<T>, T, T, u32>();
  });
  for_types<i16, i32, i64>([&]<class T>(T) {
    to[std::string("neg") + suffix<T>()] = lanewise<negate<T>, T, T>();
    to[std::string("abs") + suffix<T>()] = lanewise<absolute<T>, T, T>();
  });
  const auto add_wide = [&]<class T, class R>(T, R) {
    to[std::string("mul.wide") + suffix<T>()] = lanewise<multiply_wide<T, R>, R, T, T>();
    to[std::string("mad.wide") + suffix<T>()] = lanewise<multiply_add_wide<T, R>, R, T, T, R>();
  };
  add_wide(i16{}, i32{});
  add_wide(u16{}, u32{});
  add_wide(i32{}, i64{});
  add_wide(u32{}, u64{});
  for_types<u16, u32, u64>([&]<class T>(T) {
    const std::string type = ".b" + std::to_string(8 * sizeof(T));
    to["shl" + type] = lanewise<shift_left<T>, T, T, u32>();
    to["shr" + type] = lanewise<shift_right<T>, T, T, u32>();
  });
}

}  // namespace ringlet::emulated
