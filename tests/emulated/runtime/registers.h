// Registers per thread of the compiled kernels.
#pragma once

#include <string>

namespace ringlet::emulated {

/// From ptxas' logs of this build; 0 if it compiles the kernel for no GPU.
int registers_of(const std::string& kernel);

}  // namespace ringlet::emulated
