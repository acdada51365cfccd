// The ops of a step on the emulated GPU: counters instead of times.
#pragma once

#include <string>
#include <vector>

#include "kernels_cases.h"
#include "ringlet/core/device.h"

namespace ringlet::bench {

/// Runs each case whose name the regular expression finds, and prints the counters of its kernels
/// with modelled times. `file`: also as tab-separated values, for scripts/emulated_counters.py;
/// none if empty.
void count_cases(const std::vector<KernelCase>& cases, Device device, const std::string& filter,
                 const std::string& file);

}  // namespace ringlet::bench
