// How ranks on several hosts find each other: they exchange addresses through our store.
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/epoll.h>

#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/transports/gloo.h"
#include "ringlet/comm/transports/gloo_pairs.h"
#include "ringlet/comm/transports/proved_connections.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::comm {
namespace {

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
    membership.meet("connected", "the connections of all ranks");
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
