// --device, as every program takes it.
#pragma once

#include <string>

#include "ringlet/core/device.h"

namespace ringlet::cli {

/// What --device names: "cpu", "cuda", "cuda:1"; InputError where it is not here.
Device existing_device(const std::string& name);

}  // namespace ringlet::cli
