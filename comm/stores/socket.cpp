#include "ringlet/comm/stores/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses resolve(const std::string& host, int port, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) why = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
  return {error == 0 ? list : nullptr, [](addrinfo* all) {
            if (all != nullptr) freeaddrinfo(all);
          }};
}

Socket open_socket(const addrinfo& address) {
  return Socket(::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                         address.ai_protocol));
}

void set_option(const Socket& socket, int level, int name, int value) {
  // Best effort: without it a lost host is detected later.
  static_cast<void>(setsockopt(socket.fd(), level, name, &value, sizeof(value)));
}

// Small messages are sent immediately, and a vanished host is detected within half a minute.
void prepare(const Socket& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 25'000);
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(in.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
  return address.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

/// An address as in /proc/net/tcp, which prints words as they lie in memory: "0100007F:7241".
std::string proc_text(const sockaddr_storage& address) {
  const bool six = address.ss_family == AF_INET6;
  const auto& in = reinterpret_cast<const sockaddr_in&>(address);
  const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
  char word[16];
  std::string text;
  for (int i = 0; i < (six ? 4 : 1); ++i) {
    std::snprintf(word, sizeof(word), "%08X",
                  six ? in6.sin6_addr.s6_addr32[i] : in.sin_addr.s_addr);
    text += word;
  }
  std::snprintf(word, sizeof(word), ":%04X", ntohs(six ? in6.sin6_port : in.sin_port));
  return text + word;
}

}  // namespace

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Socket make_wakeup() {
  Socket wakeup(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  RINGLET_CHECK(wakeup, "[store] no eventfd: ", std::strerror(errno));
  return wakeup;
}

void wake(const Socket& wakeup) {
  const std::uint64_t one = 1;
  static_cast<void>(!write(wakeup.fd(), &one, sizeof(one)));  // a full counter wakes, too
}

void clear(const Socket& wakeup) {
  std::uint64_t count = 0;
  static_cast<void>(!read(wakeup.fd(), &count, sizeof(count)));
}

bool is_numeric_address(const std::string& host) {
  std::string why;
  return resolve(host, 0, AI_NUMERICHOST, why) != nullptr;
}

bool is_loopback(const std::string& host) {
  std::string why;
  const Addresses found = resolve(host, 0, 0, why);
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next)
    if (!is_loopback(*address->ai_addr)) return false;
  return found != nullptr;
}

Socket listen_at(const std::string& host, int port) {
  std::string why;
  const Addresses found =
      resolve(host.empty() ? "::" : host, port, AI_PASSIVE, why);  // :: is IPv4, too
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    Socket socket = open_socket(*address);
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (socket && bind(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
        listen(socket.fd(), SOMAXCONN) == 0)
      return socket;
    why = std::strerror(errno);
    if (host.empty() && errno == EAFNOSUPPORT) return listen_at("0.0.0.0", port);
  }
  fail_input("cannot listen at ", host.empty() ? "*" : host, ':', port, ": ", why);
}

int local_port(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  RINGLET_CHECK(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) == 0,
                "[store] getsockname: ", std::strerror(errno));
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string local_address_towards(const std::string& host) {
  std::string why;
  const Addresses found = resolve(host, /*port=*/9, 0, why);
  if (!found) return "";
  const Socket socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  char text[NI_MAXHOST];
  const bool is_known =
      socket && connect(socket.fd(), found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(socket.fd(), address, &length) == 0 &&
      getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0;
  return is_known ? text : "";
}

Socket accept_from(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) prepare(socket);
  return socket;
}

Socket connect_to(const std::string& host, int port, Deadline deadline, std::string& why) {
  const Addresses found = resolve(host, port, 0, why);
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    Socket socket = open_socket(*address);
    int error = socket ? 0 : errno;
    if (socket && connect(socket.fd(), address->ai_addr, address->ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      socklen_t length = sizeof(error);
      if (wait_for(socket, POLLOUT, deadline))
        getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    // If no process listens yet, TCP can connect a socket to itself: both ends have one port.
    if (error == 0 && local_port(socket) == port) error = ECONNREFUSED;
    if (error == 0) {
      prepare(socket);
      return socket;
    }
    why = std::strerror(error);
  }
  return {};
}

bool wait_for(const Socket& socket, short events, Deadline deadline) {
  pollfd entry{socket.fd(), events, 0};
  do {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int ready =
        poll(&entry, 1, static_cast<int>(std::clamp<long>(left.count(), 0, 3'600'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

std::size_t send_until(const Socket& socket, std::string_view bytes, Deadline deadline) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(socket.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(socket, POLLOUT, deadline)) break;
    } else if (errno != EINTR) {
      break;
    }
  }
  return sent;
}

Got receive_some(const Socket& socket, std::string& into, std::size_t most) {
  std::array<char, 1 << 14> buffer;
  const ssize_t n = recv(socket.fd(), buffer.data(), std::min(most, buffer.size()), 0);
  if (n > 0) {
    into.append(buffer.data(), static_cast<std::size_t>(n));
    return Got::bytes;
  }
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Got::nothing;
  if (n == 0) errno = 0;
  return Got::end;
}

std::string receive_exactly(const Socket& socket, std::size_t n, Deadline deadline) {
  std::string bytes;
  while (bytes.size() < n) {
    const Got got = receive_some(socket, bytes, n - bytes.size());
    if (got == Got::end || (got == Got::nothing && !wait_for(socket, POLLIN, deadline))) break;
  }
  return bytes;
}

bool peer_is_this_user(const Socket& socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_length = sizeof(own), peer_length = sizeof(peer);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0)
    return false;
  std::ifstream table(own.ss_family == AF_INET6 ? "/proc/net/tcp6" : "/proc/net/tcp");
  const std::string ends = proc_text(peer) + ' ' + proc_text(own) + ' ';
  for (std::string line; std::getline(table, line);) {
    const std::size_t at = line.find(ends);
    if (at == line.npos) continue;
    std::istringstream rest(line.substr(at + ends.size()));
    std::string state, queues, timer, retransmissions;
    uid_t user = 0;
    return rest >> state >> queues >> timer >> retransmissions >> user && user == geteuid();
  }
  return false;
}

}  // namespace ringlet::comm
