// A TCP connection between every two ranks, which only ranks of the group can make.
#pragma once

#include <string>
#include <vector>

#include "ringlet/comm/membership.h"
#include "ringlet/comm/stores/socket.h"

namespace ringlet::comm {

/// This rank's connection with each peer, by rank; its own entry is empty. Listens at `address`, of
/// this host, until all are made. Both sides of a connection prove, by HMAC-SHA256 over fresh
/// numbers, that they know a secret in the group's store. Unauthenticated clients are closed.
std::vector<Socket> connect_peers(const Membership& membership, const std::string& address);

}  // namespace ringlet::comm
