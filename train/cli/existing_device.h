// --device, as every program takes it.
#pragma once

#include <string>

#include "ringlet/core/device.h"

namespace ringlet::cli {

/// What --device names: "cpu", "cuda:1", or "cuda", which is the first, or under a launcher the
/// local rank's own of those that this process sees: a launcher may show each rank one alone.
/// InputError where it is not here.
Device existing_device(const std::string& name);

}  // namespace ringlet::cli
