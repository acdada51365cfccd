#include "ringlet/core/base/dtype.h"

#include <array>
#include <cmath>
#include <ostream>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet {
namespace {

struct Row {
  std::string_view name;
  std::size_t itemsize;
  bool floating;
};

constexpr std::array<Row, 7> kRows{{{"f32", 4, true},
                                    {"f64", 8, true},
                                    {"bf16", 2, true},
                                    {"f16", 2, true},
                                    {"i32", 4, false},
                                    {"i64", 8, false},
                                    {"u8", 1, false}}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

float16::float16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t magnitude = u & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // rounds to infinity
  } else if (magnitude < 0x38800000u) {
    // Subnormal halves are multiples of 2^-24: let the FPU round to nearest even.
    half =
        static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24)));
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

float16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t e = exponent == 31 ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | (e << 23) | (mantissa << 13));
}

std::size_t itemsize(DType dtype) { return row(dtype).itemsize; }
std::string_view name(DType dtype) { return row(dtype).name; }
bool is_floating(DType dtype) { return row(dtype).floating; }

DType parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  fail_input("unknown dtype ", quote(name), "; expected f32, f64, bf16, f16, i32, i64 or u8");
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

void unsupported_dtype(const char* op, DType dtype) {
  fail("[", op, "] does not take ", dtype, " tensors");
}

}  // namespace ringlet
