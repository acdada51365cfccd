// The clients of a TCP store's server and the scopes that they have joined.
#pragma once

#include <poll.h>

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ringlet/comm/store.h"
#include "ringlet/comm/stores/tcp_scope.h"

namespace ringlet::comm {

/// Used by one thread, which polls; wait_for_goodbyes() may be called by any.
class TcpMembers {
 public:
  /// Adds a client that has proved to know the token.
  void add(Socket socket) { members_.push_back({std::move(socket)}); }

  /// Appends the descriptors to be polled.
  void poll_into(std::vector<pollfd>& polled) const;
  /// When the next sign of life from a member is due.
  Deadline next_sign() const;
  /// Handles the results of poll(); `events` are the entries that poll_into() appended. A member
  /// that has ended without a goodbye, or is silent, causes an alarm.
  void serve(const pollfd* events);

  /// Tells all members that the server ends in order.
  void send_closing();
  /// Raises the alarm on all members: the server cannot continue.
  void fail_all(const std::string& cause);

  /// Waits until at most `remaining` members that have joined are left; false after `timeout`.
  bool wait_for_goodbyes(Timeout timeout, int remaining) const;

 private:
  void serve(TcpMember& member, short events);
  void handle(TcpMember& member, const StoreMessage& message);
  void join(TcpMember& member, const StoreMessage& message);
  void lose(TcpMember& member, const std::string& what);
  void leave(TcpMember& member);
  void remove_lost();
  void change_count(int by);

  std::list<TcpMember> members_;
  std::map<std::string, TcpScope> scopes_;
  mutable std::mutex count_mutex_;
  mutable std::condition_variable count_changed_;
  int joined_ = 0;
};

}  // namespace ringlet::comm
