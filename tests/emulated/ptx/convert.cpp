// Conversions (PTX manual, 9.7.9.21): integers wrap, floats round, out-of-range floats saturate.
#include <immintrin.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "operations.h"

namespace ringlet::emulated {
namespace {

enum class Round { none, zero, down, up, nearest };

template <Round kRound, class T>
T rounded(T a) {
  if constexpr (kRound == Round::zero) return std::trunc(a);
  if constexpr (kRound == Round::down) return std::floor(a);
  if constexpr (kRound == Round::up) return std::ceil(a);
  if constexpr (kRound == Round::nearest) return std::nearbyint(a);
  return a;
}

// NaN becomes 0, or the highest bit alone where a type has 64 bits. A long double represents both
// limits of R exactly.
template <class R, class T>
R saturated(T a) {
  using Limits = std::numeric_limits<R>;
  if (std::isnan(a))
    return sizeof(T) < 8 && sizeof(R) < 8 ? R{0} : static_cast<R>(u64{1} << (8 * sizeof(R) - 1));
  if (static_cast<long double>(a) <= static_cast<long double>(Limits::min())) return Limits::min();
  if (static_cast<long double>(a) >= static_cast<long double>(Limits::max())) return Limits::max();
  return static_cast<R>(a);
}

template <Round kRound, class R, class T>
R convert(T a) {
  if constexpr (std::is_floating_point_v<T> && std::is_integral_v<R>)
    return saturated<R>(rounded<kRound>(a));
  else if constexpr (std::is_floating_point_v<T> && std::is_same_v<T, R>)
    return rounded<kRound>(a);
  else
    return static_cast<R>(a);
}

float clamped(float a) { return std::isnan(a) || a < 0 ? 0.f : a > 1 ? 1.f : a; }

u16 to_half(float a) { return std::isnan(a) ? 0x7fff : _cvtss_sh(a, _MM_FROUND_TO_NEAREST_INT); }
float from_half(u16 bits) { return _cvtsh_ss(bits); }
u16 to_bfloat(float a) {
  const u32 bits = std::bit_cast<u32>(a);
  if (std::isnan(a)) return 0x7fff;
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float from_bfloat(u16 bits) { return std::bit_cast<float>(u32{bits} << 16); }
u32 to_bfloats(float high, float low) { return u32{to_bfloat(high)} << 16 | to_bfloat(low); }

template <Round kRound, class R, class T>
void add_one(Operations& to, const std::string& rounding) {
  to["cvt" + rounding + suffix<R>() + suffix<T>()] = lanewise<convert<kRound, R, T>, R, T>();
}

template <class R, class T>
void add_pair(Operations& to) {
  constexpr bool kFromFloat = std::is_floating_point_v<T>, kToFloat = std::is_floating_point_v<R>;
  if constexpr (kFromFloat && (!kToFloat || std::is_same_v<R, T>)) {
    add_one<Round::zero, R, T>(to, ".rzi");
    add_one<Round::down, R, T>(to, ".rmi");
    add_one<Round::up, R, T>(to, ".rpi");
    add_one<Round::nearest, R, T>(to, ".rni");
  } else {
    add_one<Round::none, R, T>(to, "");
    if (kToFloat) add_one<Round::none, R, T>(to, ".rn");
  }
}

}  // namespace

void add_convert_operations(Operations& to) {
  const auto all = [&]<class R>(R) {
    for_types<std::int8_t, std::uint8_t, std::int16_t, u16, std::int32_t, u32, std::int64_t,
              std::uint64_t, float, double>([&]<class T>(T) { add_pair<R, T>(to); });
  };
  for_types<std::int8_t, std::uint8_t, std::int16_t, u16, std::int32_t, u32, std::int64_t,
            std::uint64_t, float, double>(all);
  to["cvt.sat.f32.f32"] = lanewise<clamped, float, float>();
  to["cvt.rn.f16.f32"] = lanewise<to_half, u16, float>();
  to["cvt.f32.f16"] = lanewise<from_half, float, u16>();
  to["cvt.rn.bf16.f32"] = lanewise<to_bfloat, u16, float>();
  to["cvt.f32.bf16"] = lanewise<from_bfloat, float, u16>();
  to["cvt.rn.bf16x2.f32"] = lanewise<to_bfloats, u32, float, float>();
}

}  // namespace ringlet::emulated
