// A store over TCP. The server is in the launcher, or in rank 0 if another launcher started the
// ranks. Each rank is a client: its socket carries its requests and its alarm. When a rank ends
// without a goodbye, its peers are told immediately.
#pragma once

#include <functional>
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
  /// Whether all clients have said goodbye or have ended. Waits at most `timeout`, and at most 10 s
  /// if the alarm is raised: only a stopped client does not end then.
  virtual bool wait_for_goodbyes(Timeout timeout) const = 0;
};

/// InputError if it cannot listen, or would listen beyond loopback without a token.
std::unique_ptr<TcpStoreServer> serve_tcp_store(const TcpStoreServerOptions& options);

struct TcpStoreOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  Token token = {};
  /// This client's name in messages: "rank 2". Process id and host are added.
  std::string name = "a client";
  /// Longest wait for the server to start, and for each of its answers.
  Timeout timeout = std::chrono::minutes(5);
  /// Called once, with the reason, when no server has answered for seconds. May be empty.
  std::function<void(const std::string& why)> on_wait = {};
};

/// A client thread sleeps on the socket. When a client ends without a goodbye, or the server does,
/// the alarm is raised here immediately. get() then throws its cause; all other calls do so once
/// the server has ended. set() takes at most 4 KiB of key and 1 MiB of value. The destructor says
/// goodbye; if an exception ends this rank, it raises the alarm first.
class TcpStore : public Store {
 public:
  /// The name of the client that raised the alarm; empty if it came from a lost connection.
  virtual std::string culprit() const = 0;
};

/// Waits for the server. Error that names it if no server answers, or one with another token.
std::unique_ptr<TcpStore> join_tcp_store(const TcpStoreOptions& options);

}  // namespace ringlet::comm
