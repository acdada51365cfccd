// Division by a number that is known when a kernel is launched, by a multiplication and a shift. A
// 64-bit division takes sixty instructions on the device.
// Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

__extension__ typedef unsigned __int128 uint128;

/// The upper half of a product.
RINGLET_HOST_DEVICE std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  return static_cast<std::uint64_t>((static_cast<uint128>(a) * b) >> 64);
#endif
}

/// Divides numbers in [0, 2^63).
class Divider {
 public:
  Divider() = default;  // by 1
  /// 1 <= divisor < 2^62
  explicit Divider(std::int64_t divisor) : divisor_(divisor) {
    while (std::int64_t{1} << shift_ < divisor) ++shift_;
    const auto above = static_cast<std::uint64_t>((std::int64_t{1} << shift_) - divisor);
    magic_ = static_cast<std::uint64_t>((static_cast<uint128>(above) << 64) /
                                        static_cast<std::uint64_t>(divisor)) +
             1;
  }

  RINGLET_HOST_DEVICE std::int64_t divisor() const { return divisor_; }
  RINGLET_HOST_DEVICE std::int64_t quotient(std::int64_t n) const {
    const auto dividend = static_cast<std::uint64_t>(n);
    return static_cast<std::int64_t>((multiply_high(dividend, magic_) + dividend) >> shift_);
  }

 private:
  std::int64_t divisor_ = 1;
  std::uint64_t magic_ = 1;
  int shift_ = 0;
};

/// n as (quotient, remainder).
struct Division {
  std::int64_t quotient;
  std::int64_t remainder;
};
RINGLET_HOST_DEVICE Division divide(std::int64_t n, const Divider& by) {
  const std::int64_t quotient = by.quotient(n);
  return {quotient, n - quotient * by.divisor()};
}

}  // namespace ringlet::cuda
