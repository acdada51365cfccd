// The bytes that something has written: one bit per byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory.h"

namespace ringlet::emulated {

/// Whether body(byte, mask) is true for all bytes that hold a bit of the accessed bytes; `byte`
/// holds the first bit.
template <class Byte, class Body>
bool all_bytes_of_bits(Byte* byte, Address address, std::size_t nbytes, const Body& body) {
  std::size_t first = address % 8;
  for (; first + nbytes > 8; ++byte, first = 0) {
    if (!body(*byte, 0xffu << first & 0xff)) return false;
    nbytes -= 8 - first;
  }
  return body(*byte, ((1u << nbytes) - 1) << first);
}

/// The written bits of `nbytes` bytes at `address`; `bits` holds the bit of its first byte.
inline bool is_written(const std::uint8_t* bits, Address address, std::size_t nbytes) {
  return all_bytes_of_bits(bits, address, nbytes, [](const std::uint8_t& byte, unsigned mask) {
    return (byte & mask) == mask;
  });
}

inline void mark_written(std::uint8_t* bits, Address address, std::size_t nbytes) {
  all_bytes_of_bits(bits, address, nbytes, [](std::uint8_t& byte, unsigned mask) {
    byte = static_cast<std::uint8_t>(byte | mask);
    return true;
  });
}

}  // namespace ringlet::emulated
