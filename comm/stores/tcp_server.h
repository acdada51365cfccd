// The server of a TCP store: in the launcher, or in rank 0 where another launcher started the
// ranks. It keeps the keys, and the control socket of every rank: when one ends without a goodbye,
// all others hear of it at once.
#pragma once

#include <memory>
#include <string>

#include "ringlet/comm/store.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

struct TcpStoreServerOptions {
  /// Where to listen: an address or name of this host, "" for all its addresses.
  std::string host = "127.0.0.1";
  int port = 0;  // 0: a free one
  /// Without one the server listens on loopback only.
  Token token = {};
  /// A connection that has not proved by then that it knows the token is closed.
  Timeout handshake_timeout = std::chrono::seconds(5);
  /// Connections that have proved nothing yet; the oldest makes room for a new one.
  std::size_t max_strangers = 256;
};

/// InputError unless there is a token or all of `host` is loopback.
void require_token_beyond_loopback(const std::string& host, const Token& token);
/// Where the server of a job whose clients connect to `host` listens. A name may stand for another
/// address here than elsewhere (Debian gives a host's own name to 127.0.1.1), so with a token it is
/// "", all addresses; but "localhost" is this host alone, everywhere (RFC 6761).
std::string host_to_listen_at(const std::string& host, const Token& token);

class TcpStoreServer {
 public:
  /// InputError where it cannot listen, or would listen beyond loopback without a token.
  explicit TcpStoreServer(const TcpStoreServerOptions& options);
  /// Tells all clients that it goes, so that they take it for no accident.
  ~TcpStoreServer();

  int port() const;
  /// Whether every client but `remaining` has said goodbye or is gone, at the latest after
  /// `timeout`.
  bool wait_for_goodbyes(Timeout timeout, int remaining = 0) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringlet::comm
