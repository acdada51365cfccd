// --device, as every program takes it.
#pragma once

#include <string>

#include "ringlet/core/device/device.h"

namespace ringlet::cli {

/// The device of --device: "cpu", "cuda:1" or "cuda". The last is the first GPU, or under a
/// launcher the local rank's GPU among those that this process sees. A launcher may make a single
/// GPU visible to each rank. InputError if the device does not exist.
Device existing_device(const std::string& name);

}  // namespace ringlet::cli
