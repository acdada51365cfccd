// TCP sockets, non-blocking, closed with their owner. No call waits beyond its deadline.
#pragma once

#include <chrono>
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

/// Whether `events` of poll() came before the deadline; if not, errno is ETIMEDOUT.
bool wait_for(const Socket& socket, short events, Deadline deadline);
/// The number of bytes sent: fewer than all if the connection ends or the deadline passes. errno
/// then has the reason; ETIMEDOUT for the deadline.
std::size_t send_until(const Socket& socket, std::string_view bytes, Deadline deadline);
/// Receives exactly n bytes; fewer if the connection ends or the deadline passes. errno then has
/// the reason: 0 if the peer closed it, ETIMEDOUT.
std::string receive_exactly(const Socket& socket, std::size_t n, Deadline deadline);

}  // namespace ringlet::comm
