#include <map>

#include "ringlet/comm/engine.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/device_objects.h"

namespace ringlet::comm {
namespace {

class InKernelEngine final : public Engine {
 public:
  InKernelEngine(Transport& transport, int rank, int size, Timeout timeout)
      : transport_(transport), rank_(rank), size_(size), timeout_(timeout) {}

  // The views are the peers' memory itself, which they do not touch until finish().
  void execute(const Collective& collective) override {
    transport_.begin(collective.call, collective.buffer);
    const std::size_t nbytes = collective.buffer.nbytes();
    std::vector<Transmission> sends, receives;
    if (rank_ != 0) sends.push_back({/*peer=*/0, 0, nbytes});
    for (int peer = 1; rank_ == 0 && peer < size_; ++peer) receives.push_back({peer, 0, nbytes});
    std::vector<void*> data{announced_bytes(collective.buffer)};
    for (const std::byte* view : transport_.exchange(sends, receives, /*in_place=*/false))
      data.push_back(const_cast<std::byte*>(view));
    if (rank_ == 0 && nbytes > 0) reduce(collective, data);
    transport_.release();
    transport_.finish();
  }

 private:
  /// `data[r]` is the buffer of rank r.
  void reduce(const Collective& collective, std::span<void* const> data) {
    const Call& call = collective.call;
    std::vector<std::int64_t> edges{0};
    for (const auto& [offset, count] : collective.pieces) edges.push_back(offset + count);
    ranks_on(collective.buffer.device())
        .all_reduce(
            data, edges, call.dtype,
            call.algorithm == Algorithm::in_kernel_ring ? CombineRoute::ring : CombineRoute::direct,
            call.reduce == ReduceOp::max ? CombineOp::max : CombineOp::sum,
            call.reduce == ReduceOp::mean ? 1.0 / size_ : 1.0);
  }

  DeviceRanks& ranks_on(Device device) {
    std::unique_ptr<DeviceRanks>& ranks = ranks_[device];
    if (!ranks) {
      ranks = backend(device.type).make_ranks(device, size_, seconds_of(timeout_));
      RINGLET_CHECK(ranks, "[all_reduce] ", device, " runs no ranks by one launch");
    }
    return *ranks;
  }

  Transport& transport_;
  int rank_;
  int size_;
  Timeout timeout_;
  std::map<Device, std::unique_ptr<DeviceRanks>> ranks_;  // in rank 0
};

}  // namespace

std::unique_ptr<Engine> make_in_kernel_engine(Transport& transport, int rank, int size,
                                              Timeout timeout) {
  return std::make_unique<InKernelEngine>(transport, rank, size, timeout);
}

}  // namespace ringlet::comm
