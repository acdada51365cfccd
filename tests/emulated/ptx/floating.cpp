// Floating point (PTX manual, 9.7.3): rounds to nearest even by default. Only .ftz forms flush
// denormals.
#include <cfenv>
#include <cmath>
#include <concepts>
#include <limits>
#include <tuple>

#include "operations.h"

namespace ringlet::emulated {
namespace {

// NaN results have one canonical bit pattern.
float canonical(float a) { return std::isnan(a) ? std::bit_cast<float>(0x7fffffffu) : a; }
double canonical(double a) { return std::isnan(a) ? std::bit_cast<double>(~u64{0} >> 1) : a; }

template <std::floating_point T>
T add(T a, T b) {
  return canonical(a + b);
}
float add_towards_zero(float a, float b) {
  const int before = std::fegetround();
  std::fesetround(FE_TOWARDZERO);
  volatile float x = a, y = b;
  const float rounded = x + y;
  std::fesetround(before);
  return canonical(rounded);
}
template <std::floating_point T>
T subtract(T a, T b) {
  return canonical(a - b);
}
template <std::floating_point T>
T product(T a, T b) {
  return canonical(a * b);
}
template <std::floating_point T>
T divide(T a, T b) {
  return canonical(a / b);
}
template <std::floating_point T>
T multiply_add(T a, T b, T c) {
  return canonical(std::fma(a, b, c));
}
// Rounds towards minus infinity: the nearest value, or the one below if that exceeds the exact sum.
float multiply_add_down(float a, float b, float c) {
  const float nearest = std::fma(a, b, c);
  if (!std::isfinite(nearest)) {
    const int before = std::fegetround();
    std::fesetround(FE_DOWNWARD);
    volatile float x = a, y = b, z = c;
    const float rounded = std::fma(x, y, z);
    std::fesetround(before);
    return canonical(rounded);
  }
  // The product is exact in double, and sum + rest is the exact result.
  const double product = double{a} * b, sum = product + c;
  const double addend = sum - product, rest = (product - (sum - addend)) + (c - addend);
  // A sum of zero is -0, unless both addends are +0.
  if (sum == 0)
    return c == 0 && !std::signbit(c) && std::signbit(a) == std::signbit(b) ? 0.f : -0.f;
  return nearest > sum || (nearest == sum && rest < 0)
             ? std::nextafter(nearest, -std::numeric_limits<float>::infinity())
             : nearest;
}
// A single NaN operand is ignored; -0 is less than +0.
template <std::floating_point T>
T lesser(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return canonical(std::isnan(a) ? b : a);
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <std::floating_point T>
T greater(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return canonical(std::isnan(a) ? b : a);
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <std::floating_point T>
T negate(T a) {
  return -a;
}
template <std::floating_point T>
T absolute(T a) {
  return std::fabs(a);
}
template <std::floating_point T>
T root(T a) {
  return canonical(std::sqrt(a));
}
template <std::floating_point T>
T reciprocal(T a) {
  return canonical(T{1} / a);
}
/// copysign d, a, b: the sign of a and the magnitude of b.
template <std::floating_point T>
T with_sign(T sign, T value) {
  return std::copysign(value, sign);
}

float flushed(float a) { return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.f, a) : a; }
// GPUs guarantee 2 ulp; this is correctly rounded.
float power_of_two(float a) { return canonical(flushed(std::exp2(flushed(a)))); }
float logarithm_of_two(float a) { return canonical(std::log2(a)); }
float approximate_reciprocal(float a) { return canonical(flushed(1.f / flushed(a))); }
// Uses the upper 32 bits only: 20 bits of mantissa, the start of a Newton iteration.
double rough_reciprocal(double a) {
  const auto high = std::bit_cast<u64>(a) >> 32 << 32;
  const double top = std::bit_cast<double>(high);
  if (std::isnan(top)) return canonical(top);
  if (std::fpclassify(top) == FP_SUBNORMAL || top == 0)
    return std::copysign(std::numeric_limits<double>::infinity(), top);
  const double inverse = 1 / top;
  if (std::fpclassify(inverse) == FP_SUBNORMAL) return std::copysign(0.0, top);
  return std::bit_cast<double>(std::bit_cast<u64>(inverse) >> 32 << 32);
}

}  // namespace

void add_float_operations(Operations& to) {
  for_types<float, double>([&]<class T>(T) {
    const std::string type = suffix<T>();
    for (const char* rounding : {"", ".rn"}) {
      to["add" + (rounding + type)] = lanewise<add<T>, T, T, T>();
      to["sub" + (rounding + type)] = lanewise<subtract<T>, T, T, T>();
      to["mul" + (rounding + type)] = lanewise<product<T>, T, T, T>();
    }
    to["fma.rn" + type] = lanewise<multiply_add<T>, T, T, T, T>();
    to["div.rn" + type] = lanewise<divide<T>, T, T, T>();
    to["rcp.rn" + type] = lanewise<reciprocal<T>, T, T>();
    to["sqrt.rn" + type] = lanewise<root<T>, T, T>();
    to["min" + type] = lanewise<lesser<T>, T, T, T>();
    to["max" + type] = lanewise<greater<T>, T, T, T>();
    to["neg" + type] = lanewise<negate<T>, T, T>();
    to["abs" + type] = lanewise<absolute<T>, T, T>();
    to["copysign" + type] = lanewise<with_sign<T>, T, T, T>();
  });
  to["add.rz.f32"] = lanewise<add_towards_zero, float, float, float>();
  to["fma.rm.f32"] = lanewise<multiply_add_down, float, float, float, float>();
  to["ex2.approx.ftz.f32"] = lanewise<power_of_two, float, float>();
  to["lg2.approx.f32"] = lanewise<logarithm_of_two, float, float>();
  to["rcp.approx.ftz.f32"] = lanewise<approximate_reciprocal, float, float>();
  to["rcp.approx.ftz.f64"] = lanewise<rough_reciprocal, double, double>();
}

}  // namespace ringlet::emulated
