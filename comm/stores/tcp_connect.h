// A client's handshake with a TCP store.
#pragma once

#include <string>

#include "ringlet/comm/store.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

/// Waits for the server and proves to know the token. Error that names the server if none answers
/// in time, or one with another token.
Socket connect_to_store(const std::string& host, int port, const Token& token, Timeout timeout);

}  // namespace ringlet::comm
