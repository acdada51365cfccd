// Loads, stores and atomics.
#pragma once

#include <string>

#include "../gpu/warp.h"

namespace ringlet::emulated {

/// in[0] is the address register or kNone; a store's values start at in[1].
Instruction::Run load_of(const Access& access);
Instruction::Run store_of(const Access& access);
/// The function for an operation and a type, such as "add" and "u32"; null if unsupported.
Instruction::Run atomic(const std::string& operation, const std::string& type);

}  // namespace ringlet::emulated
