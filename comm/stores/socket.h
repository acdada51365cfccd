// TCP sockets, non-blocking, closed with their owner. No call waits beyond its deadline.
#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

namespace ringlet::comm {

using Deadline = std::chrono::steady_clock::time_point;

/// Move-only owner of a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

/// Threads that are started while it lives receive none of the program's signals.
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

/// An eventfd that wakes poll().
Socket make_wakeup();
void wake(const Socket& wakeup);
void clear(const Socket& wakeup);

/// Whether it is a numeric IPv4 or IPv6 address.
bool is_numeric_address(const std::string& host);
/// Whether all addresses of the name are this host's loopback; false for an unknown name.
bool is_loopback(const std::string& host);

/// Listens at the address of `host` ("" is every address); port 0 chooses a free one. InputError
/// "cannot listen at HOST:PORT: Address already in use".
Socket listen_at(const std::string& host, int port);
int local_port(const Socket& socket);
/// This host's address on the route to `host`, found without sending anything; empty without one.
std::string local_address_towards(const std::string& host);
/// The next connection, non-blocking; an empty socket, with the reason in errno, if there is none.
Socket accept_from(const Socket& listener);

/// Whether a process of this user has the other end of a connection within this host.
bool peer_is_this_user(const Socket& socket);

/// One attempt. Returns an empty socket, with the reason in `why`, if no server answers.
Socket connect_to(const std::string& host, int port, Deadline deadline, std::string& why);

/// Whether `events` of poll() came before the deadline.
bool wait_for(const Socket& socket, short events, Deadline deadline);
/// The number of bytes sent: fewer than all if the connection ends or the deadline passes. A
/// deadline in the past sends what the socket takes without waiting.
std::size_t send_until(const Socket& socket, std::string_view bytes, Deadline deadline);
enum class Got { bytes, nothing, end };
/// Appends the available bytes, at most `most` and 16 KiB, without waiting. At the end of the
/// connection errno has the reason (0: the peer closed it).
Got receive_some(const Socket& socket, std::string& into, std::size_t most = 1 << 14);
/// Receives exactly n bytes; fewer if the connection ends or the deadline passes.
std::string receive_exactly(const Socket& socket, std::size_t n, Deadline deadline);

}  // namespace ringlet::comm
