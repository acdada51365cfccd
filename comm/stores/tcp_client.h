// One process's connection to a TCP store: its keys and, over the same socket, its alarm.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ringlet/comm/store.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

struct TcpStoreOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  Token token = {};
  /// Keys and the alarm are shared by all clients of one scope.
  std::string scope = "world";
  /// This client's name in messages: "rank 2". Process id and host are added.
  std::string name = "somebody";
  /// The server's name in messages; its address is added.
  std::string server = "the store";
  /// Longest wait for the server to start, and for each of its answers.
  Timeout timeout = std::chrono::minutes(5);
  /// How long either side may send nothing though its host is up (a stopped process) before the
  /// other side raises the alarm. 0: without limit.
  Timeout silence = Timeout::zero();
  /// Called once, with the reason, when no server has answered for seconds. May be empty.
  std::function<void(const std::string& why)> on_wait = {};
};

/// A client thread sleeps on the socket. When a client of the scope ends without a goodbye, or the
/// server does, the alarm is raised here immediately. get() then throws its cause; all other calls
/// do so once the server has ended or is silent. set() takes at most 4 KiB of key and 1 MiB of
/// value. The destructor says goodbye; if an exception ends this rank, it raises the alarm first.
class TcpStore : public Store {
 public:
  /// The name of the client that raised the alarm; empty if it came from a lost connection.
  virtual std::string culprit() const = 0;
};

/// Waits for the server. Error that names it if no server answers, or one with another token.
std::unique_ptr<TcpStore> join_tcp_store(const TcpStoreOptions& options);

}  // namespace ringlet::comm
