// Loads, stores and atomics.
#pragma once

#include <string>

#include "../gpu/memory.h"
#include "../gpu/warp.h"

namespace ringlet::emulated {

/// in[0] is the address register or kNone; a store's values start at in[1].
void run_load(Warp& warp, const Instruction& at, Mask mask);
void run_store(Warp& warp, const Instruction& at, Mask mask);
/// The function for an operation and a type, such as "add" and "u32"; null if unsupported.
Instruction::Run atomic(const std::string& operation, const std::string& type);

/// The written bits of `nbytes` bytes at `address`; `bits` holds the bit of its first byte.
bool is_written(const std::uint8_t* bits, Address address, std::size_t nbytes);
void mark_written(std::uint8_t* bits, Address address, std::size_t nbytes);

}  // namespace ringlet::emulated
