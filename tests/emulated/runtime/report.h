// Counters of kernels.
#pragma once

#include "../ptx/program.h"

namespace ringlet::emulated {

/// Includes the kernel in the report at exit.
void report_at_exit(const Kernel& kernel);

}  // namespace ringlet::emulated
