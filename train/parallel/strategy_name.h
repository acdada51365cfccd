// The strategies by name.
#pragma once

#include "ringlet/core/base/names.h"

namespace ringlet::train {

enum class Strategy { none, dp, ddp, zero1, zero2, fsdp };
inline constexpr EnumNames<Strategy, 6> kStrategies{
    "strategy", {"none", "dp", "ddp", "zero1", "zero2", "fsdp"}};

}  // namespace ringlet::train
