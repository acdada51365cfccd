// Direct ways between GPUs.
#pragma once

#include "ringlet/core/device.h"

namespace ringlet::cuda {

/// From the first call on copies from `from` to `to` go over the link between them, where there is
/// one. False elsewhere: there cudaMemcpyPeerAsync stages them through memory of the host, which
/// the driver has for that.
bool enable_peer_access(Device to, Device from);

}  // namespace ringlet::cuda
