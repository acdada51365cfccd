// The ops of a step on the emulated GPU: counters instead of times.
#pragma once

#include <string>
#include <vector>

#include "kernels_cases.h"
#include "ringlet/core/device.h"

namespace ringlet::bench {

/// Runs the cases with names that match the regular expression `filter`, and prints the counters of
/// their kernels with modelled times. If `file` is not empty, writes them there too, as
/// tab-separated values for scripts/emulated_counters.py.
void count_cases(const std::vector<KernelCase>& cases, Device device, const std::string& filter,
                 const std::string& file);

}  // namespace ringlet::bench
