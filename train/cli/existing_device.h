// --device, as every program takes it.
#pragma once

#include <string>

#include "ringlet/core/device.h"

namespace ringlet::cli {

/// What --device names: "cpu", "cuda:1", or "cuda", which is the first, or under a launcher the
/// local rank's own; InputError where it is not here.
Device existing_device(const std::string& name);

}  // namespace ringlet::cli
