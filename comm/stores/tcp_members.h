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

/// Used by one thread, which polls, but for wait_for_goodbyes().
class TcpMembers {
 public:
  /// Of somebody who knows the token.
  void add(Socket socket) { members_.push_back({std::move(socket)}); }
  std::size_t size() const { return members_.size(); }

  /// Appends what is to be polled.
  void poll_into(std::vector<pollfd>& polled) const;
  /// When one of them should have given a sign of life.
  Deadline next_sign() const;
  /// Handles what poll() found, `events` being what poll_into() appended. Whoever has ended without
  /// a goodbye, or is silent, is the cause of an alarm.
  void serve(const pollfd* events);

  /// The server goes, and that is no accident.
  void say_closing();
  /// It cannot go on.
  void fail_all(const std::string& cause);

  /// Whether at most `remaining` are left that have joined, at the latest after `timeout`.
  bool wait_for_goodbyes(Timeout timeout, int remaining) const;

 private:
  void serve(TcpMember& member, short events);
  void handle(TcpMember& member, const StoreMessage& message);
  void join(TcpMember& member, const StoreMessage& message);
  void lose(TcpMember& member, const std::string& what);
  void leave(TcpMember& member);
  void bury();
  void change_count(int by);

  std::list<TcpMember> members_;
  std::map<std::string, TcpScope> scopes_;
  mutable std::mutex count_mutex_;
  mutable std::condition_variable count_changed_;
  int joined_ = 0;
};

}  // namespace ringlet::comm
