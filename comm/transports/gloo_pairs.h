// gloo over connections that ringlet has made.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <memory>
#include <vector>

#include "ringlet/comm/stores/socket.h"

namespace ringlet::comm {

/// gloo's context over the connections with each rank. gloo listens for each pair, and
/// accepts one connection of any client. Ours replaces it before gloo reads. For that this function
/// must run on the thread of the device's loop.
std::shared_ptr<::gloo::Context> make_gloo_context(
    const std::shared_ptr<::gloo::transport::tcp::Device>& device, int rank,
    const std::vector<Socket>& peers, std::chrono::milliseconds timeout);

}  // namespace ringlet::comm
