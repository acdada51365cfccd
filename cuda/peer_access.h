// Peer access between GPUs.
#pragma once

#include "ringlet/core/device/device.h"

namespace ringlet::cuda {

/// After the first call, copies from `from` to `to` use the direct link between them, if there is
/// one. Otherwise false: cudaMemcpyPeerAsync then stages copies through host memory of the driver.
bool enable_peer_access(Device to, Device from);

}  // namespace ringlet::cuda
