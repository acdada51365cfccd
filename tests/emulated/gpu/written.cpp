#include "written.h"

#include <algorithm>

namespace ringlet::emulated {
namespace {

// Whether body(byte, mask) is true for all bytes that hold a bit of the accessed bytes.
template <class Byte, class Body>
bool all_bytes_of_bits(Byte* byte, Address address, std::size_t nbytes, const Body& body) {
  std::size_t first = address % 8;
  for (; first + nbytes > 8; ++byte, first = 0) {
    if (!body(*byte, 0xffu << first & 0xff)) return false;
    nbytes -= 8 - first;
  }
  return body(*byte, ((1u << nbytes) - 1) << first);
}

}  // namespace

bool is_written(const std::uint8_t* bits, Address address, std::size_t nbytes) {
  return all_bytes_of_bits(bits, address, nbytes, [](const std::uint8_t& byte, unsigned mask) {
    return (byte & mask) == mask;
  });
}

void mark_written(std::uint8_t* bits, Address address, std::size_t nbytes) {
  all_bytes_of_bits(bits, address, nbytes, [](std::uint8_t& byte, unsigned mask) {
    byte = static_cast<std::uint8_t>(byte | mask);
    return true;
  });
}

}  // namespace ringlet::emulated
