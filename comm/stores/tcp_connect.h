// A client's handshake with a TCP store.
#pragma once

#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_client.h"

namespace ringlet::comm {

/// Waits for the server and proves to know the token. Error that names the server if none answers
/// in time, or one with another token.
Socket connect_to_store(const TcpStoreOptions& options);

}  // namespace ringlet::comm
