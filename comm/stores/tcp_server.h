// The server of a TCP store: in the launcher, or in rank 0 if another launcher started the ranks.
// It keeps the keys and every rank's control socket. When a rank ends without a goodbye, its peers
// are told immediately.
#pragma once

#include <memory>
#include <string>

#include "ringlet/comm/store.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

struct TcpStoreServerOptions {
  /// Where to listen: the host to which clients connect, "" for all addresses of this host. A name
  /// may mean another address here than elsewhere (Debian gives a host's own name to 127.0.1.1).
  /// With a token the server therefore takes a name for "", all addresses; but "localhost" is this
  /// host everywhere (RFC 6761).
  std::string host = "127.0.0.1";
  int port = 0;  // 0: a free one
  /// Without a token the server listens on loopback only, and serves this user's processes only.
  Token token = {};
};

/// Its destructor tells all clients that it ends in order, so that they raise no alarm.
class TcpStoreServer {
 public:
  virtual ~TcpStoreServer() = default;
  virtual int port() const = 0;
  /// Whether all clients have said goodbye or have ended; waits at most `timeout`.
  virtual bool wait_for_goodbyes(Timeout timeout) const = 0;
};

/// InputError if it cannot listen, or would listen beyond loopback without a token.
std::unique_ptr<TcpStoreServer> serve_tcp_store(const TcpStoreServerOptions& options);

}  // namespace ringlet::comm
