#include "ringlet/comm/stores/tcp_server.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_handshakes.h"
#include "ringlet/comm/stores/tcp_members.h"
#include "ringlet/core/error.h"
#include "ringlet/core/thread.h"

namespace ringlet::comm {
namespace {

Socket open_listener(const TcpStoreServerOptions& options) {
  require_token_beyond_loopback(options.host, options.token);
  return listen_at(options.host, options.port);
}

}  // namespace

class TcpStoreServer::Impl {
 public:
  explicit Impl(const TcpStoreServerOptions& options)
      : wakeup_(make_wakeup()),
        handshakes_(open_listener(options), options.token, options.handshake_timeout,
                    options.max_handshakes) {
    const SignalsBlocked blocked;
    thread_ = start_thread([this] { serve(); });
  }
  ~Impl() {
    stop_ = true;
    wake(wakeup_);
    thread_.join();
  }

  int port() const { return handshakes_.port(); }
  const TcpMembers& members() const { return members_; }

 private:
  /// Runs on the only thread that uses the sockets.
  void serve() {
    try {
      while (!stop_) serve_once();
      members_.send_closing();
    } catch (const std::exception& error) {
      members_.fail_all(str("the store at port ", port(), ": ", error.what()));
    }
  }

  void serve_once() {
    polled_.assign(1, {wakeup_.fd(), POLLIN, 0});
    members_.poll_into(polled_);
    const std::size_t first = polled_.size();
    handshakes_.poll_into(polled_);
    if (poll(polled_.data(), polled_.size(), patience()) < 0) {
      RINGLET_CHECK(errno == EINTR, "[store] poll: ", std::strerror(errno));
      return;
    }
    if (polled_[0].revents != 0) clear(wakeup_);
    // Ranks first, unauthenticated clients last.
    members_.serve(&polled_[1]);
    handshakes_.serve(&polled_[first], [&](Socket socket) { members_.add(std::move(socket)); });
  }

  /// Milliseconds until the server must act even if no client sends; at most a minute.
  int patience() const {
    constexpr auto kLongest = std::chrono::minutes(1);
    const auto now = std::chrono::steady_clock::now();
    const Deadline next = std::min({handshakes_.next_due(), members_.next_sign(), now + kLongest});
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now);
    return static_cast<int>(std::max<long>(wait.count(), 0));
  }

  Socket wakeup_;
  TcpHandshakes handshakes_;
  TcpMembers members_;
  std::vector<pollfd> polled_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void require_token_beyond_loopback(const std::string& host, const Token& token) {
  if (token.empty() && (host.empty() || !is_loopback(host)))
    fail_input("RINGLET_TOKEN: expected a secret that all hosts know (or RINGLET_TOKEN_FILE), as ",
               host.empty() ? "*" : host, " accepts connections of any host");
}

std::string host_to_listen_at(const std::string& host, const Token& token) {
  return token.empty() || host == "localhost" || is_numeric_address(host) ? host : "";
}

TcpStoreServer::TcpStoreServer(const TcpStoreServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
TcpStoreServer::~TcpStoreServer() = default;
int TcpStoreServer::port() const { return impl_->port(); }
bool TcpStoreServer::wait_for_goodbyes(Timeout timeout, int remaining) const {
  return impl_->members().wait_for_goodbyes(timeout, remaining);
}

}  // namespace ringlet::comm
