// One process's connection to a TCP store: its keys, and, over the same socket, its alarm.
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
  /// Who this is in messages: "rank 2". Process id and host are added.
  std::string name = "somebody";
  /// What the server is in messages; its address is added.
  std::string server = "the store";
  /// Longest wait for the server to be there, and for each of its answers.
  Timeout timeout = std::chrono::minutes(5);
  /// How long either side may say nothing though its host is there (a process that was stopped)
  /// before the other raises the alarm. 0: however long.
  Timeout silence = Timeout::zero();
};

/// A client thread sleeps on the socket. When a client of the scope ends without a goodbye, or the
/// server does, the alarm is raised here at once; get() then throws its cause, and so does all else
/// once the server has ended or is silent.
class TcpStore final : public Store, public Alarm {
 public:
  /// Waits for the server. Error that names it where nobody answers, or does with another token.
  explicit TcpStore(const TcpStoreOptions& options);
  /// Says goodbye; or raises the alarm where it is an exception that ends this rank.
  ~TcpStore() override;

  /// At most 4 KiB of key and 1 MiB of value.
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Timeout timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;

  void raise(const std::string& cause) override;
  bool raised() const override;
  std::string cause() const override;
  /// The name of who raised it; empty where it was the connection that ended.
  std::string culprit() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringlet::comm
