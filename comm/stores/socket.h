// TCP sockets, non-blocking, closed with their owner; nothing waits beyond a deadline.
#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <string_view>

namespace ringlet::comm {

using Deadline = std::chrono::steady_clock::time_point;

/// Move-only owner of a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void close();

 private:
  int fd_ = -1;
};

/// Threads that are started while it lives take none of the program's signals.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// What poll() wakes up for beside sockets.
Socket make_wakeup();
void wake(const Socket& wakeup);
void clear(const Socket& wakeup);

/// A numeric IPv4 or IPv6 address.
bool is_numeric_address(const std::string& host);
/// All addresses of the name are of this host's loopback; false for an unknown name.
bool is_loopback(const std::string& host);

/// Listens at the address of `host` ("" is every address), port 0 is a free one. InputError
/// "cannot listen at HOST:PORT: Address already in use".
Socket listen_at(const std::string& host, int port);
int local_port(const Socket& listener);
/// The next connection, non-blocking, or none: then errno says why.
Socket accept_from(const Socket& listener);

/// One attempt. An empty socket, with the reason in `why`, where nobody answers.
Socket connect_to(const std::string& host, int port, Deadline deadline, std::string& why);

/// How many bytes were sent: fewer than all when the peer is gone or the deadline has passed.
std::size_t send_until(const Socket& socket, std::string_view bytes, Deadline deadline);
/// Sends all or fails; false when the peer is gone or the deadline has passed.
bool send_all(const Socket& socket, std::string_view bytes, Deadline deadline);
enum class Got { bytes, nothing, end };
/// Appends what is there, at most `most` bytes, without waiting; at the end of the connection errno
/// tells why (0: the peer closed it).
Got receive_some(const Socket& socket, std::string& into, std::size_t most);
/// Receives exactly n bytes; shorter when the peer is gone or the deadline has passed.
std::string receive_exactly(const Socket& socket, std::size_t n, Deadline deadline);

}  // namespace ringlet::comm
