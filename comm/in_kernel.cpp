#include "ringlet/comm/in_kernel.h"

#include <vector>

#include "ringlet/core/device_objects.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

void show_buffer(const RankPart& part) {
  const StreamGuard on(*part.stream);
  const Collective& collective = *part.collective;
  part.transport->begin(collective.call, collective.buffer);
  const Transmission whole[] = {{0, 0, collective.buffer.nbytes()}};
  if (part.rank != 0) part.transport->send(whole);
}

/// `data[r]` is the buffer of rank r.
void launch_on(const RankPart& part, std::span<void* const> data) {
  const Collective& collective = *part.collective;
  const Call& call = collective.call;
  std::vector<std::int64_t> edges{0};
  for (const auto& [offset, count] : collective.pieces) edges.push_back(offset + count);
  collective.ranks->all_reduce(
      data, edges, call.dtype,
      call.algorithm == Algorithm::in_kernel_ring ? Route::ring : Route::direct,
      call.reduce == ReduceOp::max ? CombineOp::max : CombineOp::sum,
      call.reduce == ReduceOp::avg ? 1.0 / part.size : 1.0);
}

/// Called by rank 0. The views are the peers' memory itself, which they do not touch until
/// finish().
void launch_for_all(const RankPart& part) {
  const StreamGuard on(*part.stream);
  const Collective& collective = *part.collective;
  std::vector<Transmission> all;
  for (int peer = 1; peer < part.size; ++peer) all.push_back({peer, 0, collective.buffer.nbytes()});
  std::vector<void*> data{announced_bytes(collective.buffer)};
  for (const std::byte* view : part.transport->receive(all, /*in_place=*/false))
    data.push_back(const_cast<std::byte*>(view));
  if (collective.buffer.numel() > 0) launch_on(part, data);
  part.transport->release();
}

}  // namespace

void run_in_kernel(std::span<const RankPart> parts) {
  for (const RankPart& part : parts) show_buffer(part);
  for (const RankPart& part : parts)
    if (part.rank == 0) launch_for_all(part);
  for (const RankPart& part : parts) {
    const StreamGuard on(*part.stream);
    part.transport->finish();
  }
}

}  // namespace ringlet::comm
