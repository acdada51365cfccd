// One process's connection to a TCP store: its keys and, over the same socket, its alarm.
#pragma once

#include <memory>
#include <string>

#include "ringlet/comm/alarm.h"
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
};

/// A client thread sleeps on the socket. When a client of the scope ends without a goodbye, or the
/// server does, the alarm is raised here immediately. get() then throws its cause; all other calls
/// do so once the server has ended or is silent.
class TcpStore final : public Store, public Alarm {
 public:
  /// Waits for the server. Error that names it if no server answers, or one with another token.
  explicit TcpStore(const TcpStoreOptions& options);
  /// Says goodbye. If an exception ends this rank, raises the alarm first.
  ~TcpStore() override;

  /// At most 4 KiB of key and 1 MiB of value.
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Timeout timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;

  void raise(const std::string& cause) override;
  bool raised() const override;
  std::string cause() const override;
  /// The name of the client that raised it; empty if the alarm came from a lost connection.
  std::string culprit() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringlet::comm
