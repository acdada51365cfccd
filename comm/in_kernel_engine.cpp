#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "ringlet/comm/engines.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/recently_used.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/device_objects.h"

namespace ringlet::comm {
namespace {

using Devices = std::vector<Device>;

/// The memory of each rank in a collective.
struct Addresses {
  Devices devices;
  std::vector<void*> data, own;
};

/// Shared by ranks that are threads. A rank writes its own elements before an exchange with each
/// other rank, and reads theirs between that and its release.
struct SharedByRanks {
  explicit SharedByRanks(std::size_t size) : devices(size), own(size) {}
  Devices devices;
  std::vector<void*> own;

  DeviceRanks& on(const Devices& of_ranks, double seconds) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<DeviceRanks>& made = ranks[of_ranks];
    const Device device = of_ranks.front();
    if (!made) made = backend(device.type).make_ranks(of_ranks, seconds);
    RINGLET_CHECK(made, "[all_reduce] ", device, " and the other ranks' devices run no ranks");
    return *made;
  }
  void abandon() {
    const std::lock_guard lock(mutex);
    for (const auto& [of, made] : ranks)
      if (made) made->abandon();
  }

 private:
  std::mutex mutex;
  std::map<Devices, std::unique_ptr<DeviceRanks>> ranks;
};

class InKernelEngine final : public Engine {
 public:
  InKernelEngine(Transport& transport, const Membership& member)
      : transport_(transport),
        member_(member),
        rank_(static_cast<std::size_t>(member.rank)),
        size_(member.size) {}

  // The views are the peers' memory itself, which they do not touch until finish(). Signals within
  // the launch order those of a replay. The ranks' hosts meet before each launch: here in the
  // exchange.
  void execute(const Collective& collective) override {
    if (collective.captured) return run(collective, known(collective));
    if (!shared_)
      shared_ = std::static_pointer_cast<SharedByRanks>(transport_.shared(
          [&] { return std::make_shared<SharedByRanks>(static_cast<std::size_t>(size_)); }));
    transport_.begin(collective.call, collective.buffer);
    shared_->devices[rank_] = collective.buffer.device();
    shared_->own[rank_] = announced_bytes(collective.own);
    std::vector<void*> data = exchange(collective.buffer);
    if (collective.buffer.nbytes() > 0)
      run(collective, {shared_->devices, std::move(data), shared_->own});
    transport_.release();
    transport_.finish();
  }

  void check_capturable(const Collective& collective) override {
    const Device device = collective.buffer.device();
    RINGLET_CHECK(std::ranges::count(known(collective).devices, device) == 1, "[",
                  name(collective.call.op), "] a rank that shares ", device,
                  " with another one captures nothing");
  }

  void abandon() noexcept override {
    if (shared_) shared_->abandon();
  }

 private:
  using Key = std::tuple<void*, void*, std::int64_t, Op, ReduceOp, DType>;
  static constexpr std::size_t kMostKnown = 1024;

  static Key key_of(const Collective& collective) {
    return {announced_bytes(collective.buffer),
            announced_bytes(collective.own),
            collective.call.count,
            collective.call.op,
            collective.call.reduce,
            collective.call.dtype};
  }
  const Addresses& known(const Collective& collective) {
    return latest_.find(key_of(collective), [&]() -> Addresses {
      fail("[", name(collective.call.op),
           "] a captured launch takes the peers' buffers of an earlier one with the same memory: "
           "run one before the capture");
    });
  }

  // The buffer of each rank.
  std::vector<void*> exchange(const Tensor& buffer) {
    std::vector<Transmission> all;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != static_cast<int>(rank_)) all.push_back({peer, 0, buffer.nbytes()});
    std::vector<void*> data;
    for (const std::byte* view : transport_.exchange(all, all, /*in_place=*/false))
      data.push_back(const_cast<std::byte*>(view));
    data.insert(data.begin() + static_cast<std::ptrdiff_t>(rank_), announced_bytes(buffer));
    return data;
  }

  // The first rank on each device launches those that share it.
  void run(const Collective& collective, Addresses all) {
    const Call& call = collective.call;
    const Devices& devices = all.devices;
    const Device device = devices[rank_];
    const bool launches =
        std::ranges::find(devices, device) - devices.begin() == static_cast<std::ptrdiff_t>(rank_);
    std::vector<std::int64_t> edges{0};
    for (const auto& [offset, count] : collective.pieces) edges.push_back(offset + count);
    PeerCall peers{.data = all.data,
                   .edges = edges,
                   .dtype = call.dtype,
                   .route = call.algorithm == Algorithm::in_kernel_ring ? CombineRoute::ring
                                                                        : CombineRoute::direct,
                   .op = call.reduce == ReduceOp::max ? CombineOp::max : CombineOp::sum,
                   .scale = call.reduce == ReduceOp::mean ? 1.0 / size_ : 1.0,
                   .reduces = call.op != Op::all_gather,
                   .gathers = call.op != Op::reduce_scatter};
    if (call.op == Op::reduce_scatter) peers.own = all.own;
    DeviceRanks& ranks = shared_->on(devices, seconds_of(member_.timeout));
    // A driver that loads a kernel may wait for the device's work, which may be a launch that waits
    // for this rank's.
    if (loaded_.insert({devices, call.dtype, peers.op, peers.route}).second) {
      if (launches) ranks.load(peers, device);
      transport_.release();
      all.data = exchange(collective.buffer);
      peers.data = all.data;
    }
    if (launches) ranks.run(peers, device);
    latest_.find(key_of(collective), [] { return Addresses{}; }) = std::move(all);
  }

  Transport& transport_;
  const Membership& member_;
  std::size_t rank_;
  int size_;
  std::shared_ptr<SharedByRanks> shared_;
  std::set<std::tuple<Devices, DType, CombineOp, CombineRoute>> loaded_;
  RecentlyUsed<Key, Addresses> latest_{kMostKnown};
};

}  // namespace

bool can_launch_once(std::span<const Device> of_ranks) {
  DeviceBackend& all = backend(of_ranks.front().type);
  const std::set<Device> different(of_ranks.begin(), of_ranks.end());
  if (different.size() < of_ranks.size() || std::ssize(of_ranks) > all.most_ranks()) return false;
  for (const Device to : different)
    for (const Device from : different)
      if (to != from && !all.has_link(to, from)) return false;
  return true;
}

std::unique_ptr<Engine> make_in_kernel_engine(Transport& transport, const Membership& member) {
  return std::make_unique<InKernelEngine>(transport, member);
}

}  // namespace ringlet::comm
