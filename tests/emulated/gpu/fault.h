// Faults of kernels, reported with kernel, source line, block and thread.
#pragma once

#include <stdexcept>
#include <string>

#include "warp.h"

namespace ringlet::emulated {

/// Aborts a launch. The next synchronising call returns an error.
struct Fault : std::runtime_error {
  using runtime_error::runtime_error;
};

/// The demangled name of a kernel or function.
std::string plain_name(const std::string& name);

/// "`what`: thread (3, 0, 0) of block (1, 0, 0), KERNEL, FILE:LINE".
[[noreturn]] void fault(const Warp& warp, int lane, const std::string& what);
/// Names the first lane of `mask`.
[[noreturn]] void fault_of(const Warp& warp, Mask mask, const std::string& what);

}  // namespace ringlet::emulated
