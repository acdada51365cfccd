#include "ringlet/comm/transports/gloo_pairs.h"

#include <dirent.h>
#include <fcntl.h>
#include <gloo/transport/tcp/address.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

namespace tcp = ::gloo::transport::tcp;

constexpr int kPatience = 5000;  // ms, for a connection within this host

/// IPv4 or IPv6 address and port, comparable.
std::string text_of(const sockaddr_storage& address) {
  const auto& in = reinterpret_cast<const sockaddr_in&>(address);
  const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
  const bool six = address.ss_family == AF_INET6;
  const void* const place = six ? static_cast<const void*>(&in6.sin6_addr) : &in.sin_addr;
  return std::string(static_cast<const char*>(place),
                     six ? sizeof(in6.sin6_addr) : sizeof(in.sin_addr)) +
         std::to_string(six ? in6.sin6_port : in.sin_port);
}

/// This process's socket at the address that listens, or the one that is connected; -1: none.
int find_socket(const std::string& address, bool listening) {
  int found = -1;
  DIR* const folder = opendir("/proc/self/fd");
  RINGLET_CHECK(folder != nullptr, "[gloo] cannot open /proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    int listens = 0;
    socklen_t flag = sizeof(listens);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag) == 0 &&
        (listens != 0) == listening && text_of(own) == address)
      found = fd;
  }
  closedir(folder);
  return found;
}

/// Makes gloo accept any connection in place of its listener, and replaces that one by ours.
void take_over(tcp::Device& device, ::gloo::transport::Pair& pair, const Socket& ours) {
  const sockaddr_storage place = tcp::Address(pair.address().bytes()).getSockaddr();
  auto* const handler = dynamic_cast<tcp::Handler*>(&pair);
  const int listener = find_socket(text_of(place), /*listening=*/true);
  RINGLET_CHECK(handler != nullptr && listener >= 0,
                "[gloo] this version connects in another way than that of Debian 12");
  const Socket any(socket(place.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  static_cast<void>(connect(any.fd(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)));
  pollfd waiting{listener, POLLIN, 0};
  int ready = 0;
  while ((ready = poll(&waiting, 1, kPatience)) < 0 && errno == EINTR) {
  }
  RINGLET_CHECK(ready == 1, "[gloo] no connection within this host");
  handler->handleEvents(EPOLLIN);
  const int accepted = find_socket(text_of(place), /*listening=*/false);
  // A peer that is stopped, or computes, may read nothing for longer than the store allows.
  const int unlimited = 0;
  setsockopt(ours.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unlimited, sizeof(unlimited));
  RINGLET_CHECK(accepted >= 0 && dup3(ours.fd(), accepted, O_CLOEXEC) == accepted,
                "[gloo] cannot take a connection over");
  device.registerDescriptor(accepted, EPOLLIN, handler);
}

class ConnectedContext final : public ::gloo::Context {
 public:
  ConnectedContext(int rank, int size, std::shared_ptr<::gloo::transport::Device> device,
                   std::shared_ptr<::gloo::transport::Context> pairs)
      : ::gloo::Context(rank, size) {
    device_ = std::move(device);
    transportContext_ = std::move(pairs);
  }
};

}  // namespace

std::shared_ptr<::gloo::Context> make_gloo_context(const std::shared_ptr<tcp::Device>& device,
                                                   int rank, const std::vector<Socket>& peers,
                                                   std::chrono::milliseconds timeout) {
  const int size = static_cast<int>(peers.size());
  const std::shared_ptr<::gloo::transport::Context> pairs = device->createContext(rank, size);
  pairs->setTimeout(timeout);
  for (int peer = 0; peer < size; ++peer)
    if (const Socket& ours = peers[static_cast<std::size_t>(peer)]; ours)
      take_over(*device, *pairs->createPair(peer), ours);
  auto context = std::make_shared<ConnectedContext>(rank, size, device, pairs);
  context->setTimeout(timeout);
  return context;
}

}  // namespace ringlet::comm
