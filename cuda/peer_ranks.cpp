#include "ringlet/cuda/peer_ranks.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <set>

#include "ringlet/core/base/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/graph.h"

namespace ringlet::cuda {
namespace {

// As many for each rank: block b of one talks to blocks b of the others.
int blocks_of(std::span<const Device> devices) {
  const auto ranks = static_cast<int>(devices.size());
  RINGLET_CHECK(2 <= ranks && ranks <= kMostPeers, "[all_reduce] of ", ranks, " ranks: 2 to ",
                kMostPeers, " fit in a launch");
  const std::set<Device> different(devices.begin(), devices.end());
  int blocks = INT32_MAX;
  for (const Device device : different) {
    const auto here = static_cast<int>(std::ranges::count(devices, device));
    const int most = most_all_reduce_blocks(device, here);
    blocks =
        std::min(blocks, different.size() == 1 ? most : std::min(most, kMostBlocksAcross / here));
  }
  return std::max(blocks, 1);
}

// Flags of one rank.
std::size_t flags_of(int ranks, int blocks) {
  return static_cast<std::size_t>(ranks) * static_cast<std::size_t>(blocks);
}
std::size_t staging_bytes(int ranks, int blocks, std::int64_t chunk_bytes) {
  constexpr auto kLeast = static_cast<std::int64_t>(AllReducePlan::kEdge * sizeof(double));
  RINGLET_CHECK(chunk_bytes >= kLeast && chunk_bytes % kLeast == 0, "[all_reduce] chunks of ",
                chunk_bytes, " bytes: expected a multiple of ", kLeast);
  return flags_of(ranks - 2, blocks) * static_cast<std::size_t>(chunk_bytes);
}

// Never destroyed: the host may wait for a device until the process ends.
struct Living {
  std::mutex mutex;
  std::set<const PeerView*> views;
};
Living& living() {
  static auto* const all = new Living;
  return *all;
}

void check_links(const std::set<Device>& devices) {
  for (const Device to : devices)
    for (const Device from : devices)
      RINGLET_CHECK(to == from || enable_peer_access(to, from), "[all_reduce] ", to,
                    " has no peer access to ", from);
}

}  // namespace

void PeerRanks::Release::operator()(std::uint64_t* word) const { free_pinned(word); }

PeerRanks::PeerRanks(std::span<const Device> devices, PeerRanksOptions options)
    : options_(options), blocks_(blocks_of(devices)) {
  const std::set<Device> different(devices.begin(), devices.end());
  check_links(different);
  {
    const BesideCapture beside;
    error_.reset(new (allocate_pinned(devices.front(), sizeof(std::uint64_t))) std::uint64_t{0});
  }
  view_.ranks = static_cast<int>(devices.size());
  view_.across_devices = different.size() > 1;
  if (view_.across_devices)
    round_ = std::make_shared<LaunchRound>(static_cast<int>(different.size()), options.seconds);
  view_.error = error_.get();
  for (const Device device : different) devices_.emplace_back(device);
  for (std::size_t r = 0; r < devices.size(); ++r)
    on(devices[r]).ranks.push_back(static_cast<int>(r));
  for (OnDevice& here : devices_) allocate(here);
  const std::lock_guard lock(living().mutex);
  living().views.insert(&view_);
}

void PeerRanks::allocate(OnDevice& here) {
  const DeviceGuard guard(here.device);
  const BesideCapture beside;
  const StreamGuard on_own(here.own);
  const std::size_t flags = flags_of(view_.ranks, blocks_);
  const std::size_t staging = staging_bytes(view_.ranks, blocks_, options_.most_chunk_bytes);
  here.flags.emplace(here.device, here.ranks.size() * flags * sizeof(std::uint32_t));
  here.staging.emplace(here.device, here.ranks.size() * staging);
  for (std::size_t i = 0; i < here.ranks.size(); ++i) {
    view_.flags[here.ranks[i]] = here.flags->as<std::uint32_t>() + i * flags;
    view_.staging[here.ranks[i]] = here.staging->as<std::byte>() + i * staging;
  }
  const cudaStream_t stream = current_stream(here.device);
  RINGLET_CUDA(cudaMemsetAsync(here.flags->data(), 0, here.flags->nbytes(), stream));
  // Captured work could not wait for it, and peers signal as soon as they are launched.
  RINGLET_CUDA(cudaStreamSynchronize(stream));
}

// Word and memory go behind the last launch and the last replay that use them.
PeerRanks::~PeerRanks() {
  {
    const std::lock_guard lock(living().mutex);
    living().views.erase(&view_);
  }
  for (const OnDevice& here : devices_) {
    cudaEventSynchronize(here.ended.get());
    const cudaStream_t stream = current_stream(here.device);
    if (!is_capturing(stream)) cudaStreamSynchronize(stream);
  }
}

PeerRanks::OnDevice& PeerRanks::on(Device device) {
  const auto found = std::ranges::find(devices_, device, &OnDevice::device);
  RINGLET_CHECK(found != devices_.end(), "[all_reduce] no rank is on ", device);
  return *found;
}

PeerView PeerRanks::view(const PeerCall& call) const {
  RINGLET_CHECK_EQ(static_cast<int>(call.data.size()), view_.ranks, "[all_reduce] ranks");
  PeerView view = view_;
  std::ranges::copy(call.data, view.data);
  for (std::size_t r = 0; r < call.data.size(); ++r)
    view.own[r] = call.own.empty()
                      ? static_cast<std::byte*>(view.data[r]) +
                            static_cast<std::size_t>(call.edges[r]) * itemsize(call.dtype)
                      : call.own[r];
  return view;
}

void PeerRanks::run(const PeerCall& call, Device device) {
  OnDevice& here = on(device);
  const AllReducePlan plan =
      plan_all_reduce(call.route, call.edges, call.dtype, blocks_, options_.most_chunk_bytes);
  const cudaStream_t stream = current_stream(device);
  const bool captured = is_capturing(stream);
  std::optional<LaunchGate::Launch> launch;
  if (round_ && captured) capture_round(round_);
  if (round_ && !captured) launch.emplace(std::span(&round_, 1));
  all_reduce(view(call), plan, call, here.ranks, options_.seconds, device);
  if (!captured) here.ended.record(stream);
}

void PeerRanks::abandon() noexcept {
  std::uint64_t none = 0;
  std::atomic_ref(*error_).compare_exchange_strong(none, Stall::kAbandoned);
  if (round_) round_->abandon();
}

void check_peer_ranks() {
  const std::lock_guard lock(living().mutex);
  for (const PeerView* view : living().views) check_all_reduce(*view);
}

}  // namespace ringlet::cuda
