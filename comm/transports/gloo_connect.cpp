// How ranks on several hosts find each other: they exchange addresses through our store.
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <sys/epoll.h>

#include <exception>
#include <thread>
#include <utility>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/transports/gloo.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/number.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::comm {
namespace {

class StoreAdapter final : public ::gloo::rendezvous::Store {
 public:
  explicit StoreAdapter(const Membership& membership) : membership_(membership) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    membership_.store->set(membership_.key("gloo/" + key), std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const auto rank = parse_number<int>(key);
    const std::string of = rank ? std::to_string(membership_.name_of(*rank)) : key;
    const std::string value = membership_.get("gloo/" + key, "the address of rank " + of);
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

std::string interface_names() {
  std::string names;
  struct if_nameindex* const all = if_nameindex();
  for (auto* one = all; one && one->if_name; ++one)
    names += str(names.empty() ? "" : ", ", one->if_name);
  if_freenameindex(all);
  return names;
}

// RINGLET_INTERFACE ("eth0"), else the route to the launcher's MASTER_ADDR, else loopback.
::gloo::transport::tcp::attr interface() {
  ::gloo::transport::tcp::attr attributes;
  if (const auto name = environment_variable("RINGLET_INTERFACE")) {
    if (if_nametoindex(name->c_str()) == 0)
      fail_input("RINGLET_INTERFACE=", shown(*name), ": expected one of ", interface_names());
    attributes.iface = *name;
  } else {
    const Environment environment = Environment::read();
    const std::string master = environment.launched
                                   ? environment.master_addr
                                   : environment_variable("MASTER_ADDR").value_or("127.0.0.1");
    attributes.hostname = local_address_towards(master);
    if (attributes.hostname.empty()) fail_input("MASTER_ADDR=", master, ": no such host");
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
