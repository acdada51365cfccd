// The bytes that something has written: one bit per byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory.h"

namespace ringlet::emulated {

/// The written bits of `nbytes` bytes at `address`; `bits` holds the bit of its first byte.
bool is_written(const std::uint8_t* bits, Address address, std::size_t nbytes);
void mark_written(std::uint8_t* bits, Address address, std::size_t nbytes);

}  // namespace ringlet::emulated
