#pragma once

#include "ringlet/core/base/philox.h"

namespace ringlet::emulated {

/// The words of a kernel that nvcc compiled.
PhiloxBlock philox_on_device(const PhiloxBlock& counter, const PhiloxKey& key);

}  // namespace ringlet::emulated
