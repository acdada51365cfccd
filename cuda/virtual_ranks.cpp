#include "ringlet/cuda/virtual_ranks.h"

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/graph.h"

namespace ringlet::cuda {
namespace {

int blocks_of(Device device, int ranks) {
  RINGLET_CHECK(2 <= ranks && ranks <= kMostPeers, "[all_reduce] of ", ranks, " ranks: 2 to ",
                kMostPeers, " fit in a launch");
  return std::max(most_all_reduce_blocks(device, ranks), 1);
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

std::uint64_t* pinned_word() {
  void* word = nullptr;
  RINGLET_CUDA(cudaHostAlloc(&word, sizeof(std::uint64_t), cudaHostAllocPortable));
  return static_cast<std::uint64_t*>(word);
}

}  // namespace

void VirtualRanks::Release::operator()(std::uint64_t* word) const { cudaFreeHost(word); }

VirtualRanks::VirtualRanks(Device device, int ranks, VirtualRanksOptions options)
    : device_(device),
      options_(options),
      blocks_(blocks_of(device, ranks)),
      own_(device),
      ended_(device) {
  const DeviceGuard guard(device);
  const BesideCapture beside;
  const StreamGuard on(own_);
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t flags = flags_of(ranks, blocks_);
  const std::size_t staging = staging_bytes(ranks, blocks_, options.most_chunk_bytes);
  flags_.emplace(device, n * flags * sizeof(std::uint32_t));
  staging_.emplace(device, n * staging);
  error_.reset(pinned_word());
  *error_ = 0;
  view_.ranks = ranks;
  view_.error = error_.get();
  for (std::size_t r = 0; r < n; ++r) {
    view_.flags[r] = flags_->as<std::uint32_t>() + r * flags;
    view_.staging[r] = staging_->as<std::byte>() + r * staging;
  }
  const cudaStream_t stream = current_stream(device);
  RINGLET_CUDA(cudaMemsetAsync(flags_->data(), 0, flags_->nbytes(), stream));
  RINGLET_CUDA(cudaStreamSynchronize(stream));  // what is captured could not wait for it
}

// Word and memory go behind the last launch and the last replay that use them.
VirtualRanks::~VirtualRanks() {
  cudaEventSynchronize(ended_.get());
  const cudaStream_t stream = current_stream(device_);
  if (!is_capturing(stream)) cudaStreamSynchronize(stream);
}

PeerView VirtualRanks::view(std::span<void* const> data) const {
  RINGLET_CHECK_EQ(static_cast<int>(data.size()), view_.ranks, "[all_reduce] ranks");
  PeerView view = view_;
  std::copy(data.begin(), data.end(), view.data);
  return view;
}

void VirtualRanks::all_reduce(std::span<void* const> data, std::span<const std::int64_t> edges,
                              DType dtype, CombineRoute route, CombineOp op, double scale) {
  const AllReducePlan plan =
      plan_all_reduce(route, edges, dtype, blocks_, options_.most_chunk_bytes);
  cuda::all_reduce(view(data), plan, dtype, op, scale, view_.ranks, options_.seconds, device_);
  const cudaStream_t stream = current_stream(device_);
  if (!is_capturing(stream)) ended_.record(stream);
}

void VirtualRanks::synchronize() const {
  RINGLET_CUDA(cudaStreamSynchronize(current_stream(device_)));
  check_all_reduce(view_);
}

}  // namespace ringlet::cuda
