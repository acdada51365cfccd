// Copies of bytes by the widest word that all addresses and lengths allow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/core/device/dispatch.h"

namespace ringlet::cuda {

/// 16 bytes as one.
struct alignas(16) Word16 {
  std::uint64_t half[2];
};

/// The largest of 16, 8, 4, 2 and 1 that divides every address and every number of bytes.
class WidestWord {
 public:
  WidestWord& fits(const void* address) {
    bits_ |= reinterpret_cast<std::uintptr_t>(address);
    return *this;
  }
  WidestWord& fits(std::int64_t nbytes) {
    bits_ |= static_cast<std::uint64_t>(nbytes);
    return *this;
  }
  std::size_t nbytes() const { return static_cast<std::size_t>(bits_ & (~bits_ + 1)); }

 private:
  std::uint64_t bits_ = 16;
};

/// Calls body.template operator()<T>() for the word of that many bytes.
template <class Body>
void dispatch_word(std::size_t nbytes, Body&& body) {
  if (nbytes == sizeof(Word16)) return body.template operator()<Word16>();
  ringlet::dispatch_word(static_cast<std::int64_t>(nbytes), body);
}

}  // namespace ringlet::cuda
