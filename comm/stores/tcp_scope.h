// The state that clients of a TCP store share: keys and an alarm, of a world of ranks or of a job's
// launchers.
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
  Timeout silence = Timeout::zero();  // longest time without a message; 0: no limit
  int missed = 0;                     // signs of life
  Deadline next_sign = {};

  void mark_alive();
  /// Counts an overdue sign of life; true once more of them are missing in a row than allowed.
  bool silent();

  void answer(const StoreMessage& message);
  /// Sends as much as the socket takes.
  void flush();
  /// The client requests and does not read the answers; it receives no more of them.
  bool stuck() const;
};

class TcpScope {
 public:
  void join(TcpMember& member);
  void leave(TcpMember& member);
  bool empty() const { return members_.empty(); }

  // Each answers the requesting member.
  void set(TcpMember& member, const StoreMessage& message);
  void get(TcpMember& member, const StoreMessage& message);
  void forget(TcpMember& member, const StoreMessage& message);
  void add(TcpMember& member, const StoreMessage& message);

  /// Raises the first cause on all members, later ones included.
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
