// Element types. f32 is for training, f64 for gradient checks, bf16 for compute, f16 for storage
// only.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace ringlet {

enum class DType : std::uint8_t { f32, f64, bf16, f16, i32, i64, u8 };

/// bfloat16: the upper half of a float, rounded to nearest even; NaN stays NaN.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  constexpr explicit bfloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40u
                                          : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE half precision, rounded to nearest even; storage and conversion only.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};

std::size_t itemsize(DType dtype);
std::string_view name(DType dtype);  // "f32"
bool is_floating(DType dtype);
/// The dtype named `name` ("f32", "bf16", …); throws InputError with the known names.
DType parse_dtype(std::string_view name);
std::ostream& operator<<(std::ostream& out, DType dtype);
/// Throws "[op] does not take f16 tensors".
[[noreturn]] void unsupported_dtype(const char* op, DType dtype);

namespace detail {
constexpr DType dtype_of(const float*) { return DType::f32; }
constexpr DType dtype_of(const double*) { return DType::f64; }
constexpr DType dtype_of(const bfloat16*) { return DType::bf16; }
constexpr DType dtype_of(const float16*) { return DType::f16; }
constexpr DType dtype_of(const std::int32_t*) { return DType::i32; }
constexpr DType dtype_of(const std::int64_t*) { return DType::i64; }
constexpr DType dtype_of(const std::uint8_t*) { return DType::u8; }
}  // namespace detail
/// The dtype of a C++ type.
template <class T>
constexpr DType dtype_of() {
  return detail::dtype_of(static_cast<const T*>(nullptr));
}

}  // namespace ringlet
