// How ranks on several hosts find each other: they exchange addresses through our store, and gloo
// runs over connections that ringlet has made.
#include <dirent.h>
#include <fcntl.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/transports/gloo.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::comm {
namespace {

namespace tcp = ::gloo::transport::tcp;

constexpr int kConnectPatience = 5000;  // ms, for a connection within this host

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
  while ((ready = poll(&waiting, 1, kConnectPatience)) < 0 && errno == EINTR) {
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

/// gloo's context over the connections with each rank. gloo listens for each pair, and accepts one
/// connection of any client. Ours replaces it before gloo reads. For that this function must run on
/// the thread of the device's loop.
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

/// gloo removes a connection from its loop, or ends the loop, at the loop's next tick. A loop
/// without events ticks every 10 ms, one with this event every 0.1 ms.
class Ticks final : public ::gloo::transport::tcp::Handler {
 public:
  explicit Ticks(std::shared_ptr<::gloo::transport::Device> device)
      : device_(std::static_pointer_cast<::gloo::transport::tcp::Device>(std::move(device))) {
    device_->registerDescriptor(event_.fd(), EPOLLIN, this);
  }

  /// No other owner may outlive this object: the loop calls it.
  std::shared_ptr<::gloo::transport::tcp::Device> device() const { return device_; }
  void begin() { wake(event_); }
  void end() { clear(event_); }
  /// Runs `task` on the loop's thread, while the loop ticks.
  void run(std::packaged_task<void()> task) {
    std::future<void> done = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      task_ = std::move(task);
    }
    done.get();
  }
  void handleEvents(int /*events*/) override {
    std::packaged_task<void()> task;
    {
      const std::lock_guard lock(mutex_);
      task = std::move(task_);
    }
    if (task.valid()) return task();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

 private:
  std::mutex mutex_;
  std::packaged_task<void()> task_;
  Socket event_ = make_wakeup();
  std::shared_ptr<::gloo::transport::tcp::Device> device_;  // its loop ends before the event
};

std::string left_key(const Membership& membership, int rank) {
  return membership.key(str("left by rank ", rank));
}

std::string interface_names() {
  std::string names;
  struct if_nameindex* const all = if_nameindex();
  for (auto* one = all; one && one->if_name; ++one)
    names += str(names.empty() ? "" : ", ", one->if_name);
  if_freenameindex(all);
  return names;
}

// RINGLET_INTERFACE ("eth0"), else the route to the store.
::gloo::transport::tcp::attr interface(const Store& store) {
  ::gloo::transport::tcp::attr attributes;
  if (const auto name = environment_variable("RINGLET_INTERFACE")) {
    if (if_nametoindex(name->c_str()) == 0)
      fail_input("RINGLET_INTERFACE=", shown(*name), ": expected one of ", interface_names());
    attributes.iface = *name;
  } else {
    attributes.hostname = local_address_towards(store.host());
    if (attributes.hostname.empty()) fail_input("MASTER_ADDR=", store.host(), ": no such host");
  }
  return attributes;
}

std::string address_of(const ::gloo::transport::tcp::attr& attributes) {
  char text[NI_MAXHOST];
  const auto* const address = reinterpret_cast<const sockaddr*>(&attributes.ai_addr);
  const auto length = static_cast<socklen_t>(attributes.ai_addrlen);
  const int error = getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  RINGLET_CHECK(error == 0, "[gloo] no address of this host: ", gai_strerror(error));
  return text;
}

}  // namespace

std::shared_ptr<::gloo::Context> connect_gloo(const Membership& membership) {
  const NoSigpipe no_sigpipe;
  try {
    const auto attributes = ::gloo::transport::tcp::CreateDeviceAttr(interface(*membership.store));
    // The loop's thread starts meanwhile.
    const auto ticks =
        std::make_shared<Ticks>(std::make_shared<::gloo::transport::tcp::Device>(attributes));
    const std::vector<Socket> peers = connect_peers(membership, address_of(attributes));
    ticks->begin();
    std::shared_ptr<::gloo::Context> made;
    ticks->run(std::packaged_task<void()>([&] {
      made = make_gloo_context(ticks->device(), membership.rank, peers, membership.timeout);
    }));
    ticks->end();
    // The connections end, and then the loop itself, while the loop ticks.
    const std::shared_ptr<::gloo::Context> context(made.get(),
                                                   [ticks, own = made](::gloo::Context*) mutable {
                                                     ticks->begin();
                                                     own.reset();
                                                   });
    made.reset();
    // A rank that left earlier would end the connections of its peers.
    membership.barrier("connected", "the connections of all ranks");
    return context;
  } catch (const ::gloo::Exception& error) {
    membership.end_late(
        str("[group] ", membership.id, ": rank ", membership.me(), ": ", error.what()));
  }
}

void record_left(const Membership& membership) noexcept {
  if (membership.store->raised()) return;
  try {
    membership.store->add(left_key(membership, membership.rank),
                          static_cast<std::int64_t>(membership.left()));
  } catch (const std::exception&) {
    // The store has ended: the alarm reports it.
  }
}

void check_left(const Membership& membership, const std::string& where, int rank) {
  Left left = Left::no;
  try {
    left = static_cast<Left>(membership.store->add(left_key(membership, rank), 0));
  } catch (const Error&) {
    // The store has ended: the alarm reports it.
  }
  if (left != Left::no) membership.end_left(where, rank, left);
}

}  // namespace ringlet::comm
