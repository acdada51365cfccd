// Copies and fills, checked like a kernel's accesses. Copying an uninitialised byte is allowed; the
// copy is uninitialised, too.
#pragma once

#include "launch.h"

namespace ringlet::emulated {

/// Addresses may be in device memory, pinned or pageable host memory. Throws Fault.
void copy_bytes(Address to, Address from, std::size_t nbytes, const LaunchOrder& order);
void read_bytes(std::byte* to, Address from, std::size_t nbytes, const LaunchOrder& order);
void write_bytes(Address to, const std::byte* from, std::size_t nbytes, const LaunchOrder& order);
void fill_bytes(Address to, unsigned char value, std::size_t nbytes, const LaunchOrder& order);

}  // namespace ringlet::emulated
