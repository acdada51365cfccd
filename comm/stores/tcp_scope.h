// What the clients of a TCP store share: keys and an alarm, of a world of ranks or of the launchers
// of a job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringlet/comm/store.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_protocol.h"

namespace ringlet::comm {

class TcpScope;

/// The server's side of one client that knows the token.
struct TcpMember {
  Socket socket;
  StoreMessageReader reader = {};
  std::string out = {};   // not sent yet
  std::string name = {};  // "rank 2 (pid 77, host a)"
  TcpScope* scope = nullptr;
  bool gone = false;
  Timeout silence = Timeout::zero();  // it may say nothing for so long; 0: however long
  int missed = 0;                     // signs of life
  Deadline next_sign = {};

  void heard();
  /// Counts a sign of life that has not come in time; whether it was the last that may be missed.
  bool silent();

  void answer(const StoreMessage& message);
  /// Sends what the socket takes.
  void flush();
  /// It asks and does not read the answers; it gets no more of them.
  bool stuck() const;
};

class TcpScope {
 public:
  void join(TcpMember& member);
  void leave(TcpMember& member);
  bool empty() const { return members_.empty(); }

  // Each answers the member that asks.
  void set(TcpMember& member, const StoreMessage& message);
  void get(TcpMember& member, const StoreMessage& message);
  void forget(TcpMember& member, const StoreMessage& message);
  void add(TcpMember& member, const StoreMessage& message);

  /// The first cause is everybody's, those who join later included.
  void raise(const std::string& who, const std::string& cause);

 private:
  struct Waiter {
    TcpMember* member;
    std::uint64_t id;
  };
  bool raised() const { return alarm_.type == StoreVerb::alarm; }

  std::vector<TcpMember*> members_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> counters_;
  std::multimap<std::string, Waiter> waiters_;
  std::size_t nbytes_ = 0;  // of keys and values
  StoreMessage alarm_ = {};
};

}  // namespace ringlet::comm
