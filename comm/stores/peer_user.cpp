#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "ringlet/comm/stores/socket.h"

namespace ringlet::comm {
namespace {

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
