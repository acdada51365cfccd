// How ranks on several hosts find each other: they exchange addresses through our store.
#include <gloo/transport/tcp/device.h>
#include <sys/epoll.h>

#include <exception>
#include <thread>
#include <utility>

#include "ringlet/comm/host.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/transports/gloo.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

class StoreAdapter final : public ::gloo::rendezvous::Store {
 public:
  explicit StoreAdapter(const Membership& membership) : membership_(membership) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    membership_.store->set(membership_.key("gloo/" + key), std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = membership_.get("gloo/" + key, "the address of rank " + key);
    return std::vector<char>(value.begin(), value.end());
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  const Membership& membership_;
};

/// gloo removes a connection from its loop, or ends the loop, at the loop's next tick. A loop
/// without events ticks every 10 ms, one with this event every 0.1 ms.
class Ticks final : public ::gloo::transport::tcp::Handler {
 public:
  explicit Ticks(std::shared_ptr<::gloo::transport::Device> device)
      : device_(std::static_pointer_cast<::gloo::transport::tcp::Device>(std::move(device))) {
    device_->registerDescriptor(event_.fd(), EPOLLIN, this);
  }

  /// No other owner may outlive this object: the loop calls it.
  std::shared_ptr<::gloo::transport::Device> device() const { return device_; }
  void begin() { wake(event_); }
  void end() { clear(event_); }
  void handleEvents(int /*events*/) override {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

 private:
  Socket event_ = make_wakeup();
  std::shared_ptr<::gloo::transport::tcp::Device> device_;  // its loop ends before the event
};

std::string left_key(const Membership& membership, int rank) {
  return membership.key(str("left by rank ", rank));
}

// RINGLET_INTERFACE ("eth0"), else the route to MASTER_ADDR, else loopback.
::gloo::transport::tcp::attr interface() {
  ::gloo::transport::tcp::attr attributes;
  const auto master = environment_variable("MASTER_ADDR");
  if (const auto name = environment_variable("RINGLET_INTERFACE")) {
    attributes.iface = *name;
  } else {
    attributes.hostname = master ? local_address_towards(*master) : "127.0.0.1";
    if (attributes.hostname.empty()) fail_input("MASTER_ADDR=", *master, ": no such host");
  }
  return attributes;
}

}  // namespace

std::shared_ptr<::gloo::rendezvous::Context> connect_gloo(const Membership& membership) {
  const NoSigpipe no_sigpipe;
  StoreAdapter store(membership);
  try {
    const auto ticks = std::make_shared<Ticks>(::gloo::transport::tcp::CreateDevice(interface()));
    // The connections end, and then the loop itself, while the loop ticks.
    const std::shared_ptr<::gloo::rendezvous::Context> context(
        new ::gloo::rendezvous::Context(membership.rank, membership.size),
        [ticks](::gloo::rendezvous::Context* last) {
          ticks->begin();
          delete last;
        });
    context->setTimeout(membership.timeout);
    ticks->begin();
    {
      auto device = ticks->device();
      context->connectFullMesh(store, device);
    }
    ticks->end();
    // A rank that left earlier would end the connections of its peers.
    membership.meet("connected", "the connections of all ranks");
    return context;
  } catch (const ::gloo::Exception& error) {
    membership.end_late(
        str("[group] ", membership.id, ": rank ", membership.me(), ": ", error.what()));
  }
}

void record_left(const Membership& membership) noexcept {
  if (std::uncaught_exceptions() > 0 || membership.store->raised()) return;
  try {
    membership.store->add(left_key(membership, membership.rank), 1);
  } catch (const std::exception&) {
    // The store has ended: the alarm reports it.
  }
}

bool has_left(const Membership& membership, int rank) noexcept {
  try {
    return membership.store->add(left_key(membership, rank), 0) > 0;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace ringlet::comm
