#include "ringlet/comm/schedule.h"

#include <algorithm>

namespace ringlet::comm {

Schedule make_schedule(Op op, Algorithm algorithm, int rank, int size, int root) {
  if (algorithm == Algorithm::native) return {};
  const bool ring = algorithm == Algorithm::ring || algorithm == Algorithm::in_kernel_ring;
  switch (op) {
    case Op::all_reduce:
      return ring ? ring_all_reduce(rank, size) : direct_all_reduce(rank, size);
    case Op::reduce_scatter:
      return ring ? ring_reduce_scatter(rank, size) : direct_reduce_scatter(rank, size);
    case Op::all_gather:
      return ring ? ring_all_gather(rank, size) : direct_all_gather(rank, size);
    case Op::broadcast:
      return ring ? ring_broadcast(rank, size, root) : direct_broadcast(rank, size, root);
    case Op::barrier:
      break;
  }
  return barrier_schedule(rank, size);
}

int count_pieces(const Schedule& schedule) {
  int count = 1;
  for (const Step& step : schedule)
    for (const auto* transfers : {&step.sends, &step.receives})
      for (const Transfer& transfer : *transfers) count = std::max(count, transfer.piece + 1);
  return count;
}

std::uint64_t hash_layout(const Pieces& pieces, std::int64_t segments) {
  auto hash = static_cast<std::uint64_t>(segments);
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (const Piece& piece : pieces) mix(piece.offset), mix(piece.count);
  return hash;
}

std::int64_t elements_sent(const Schedule& schedule, const Pieces& pieces) {
  std::int64_t elements = 0;
  for (const Step& step : schedule)
    for (const Transfer& send : step.sends)
      elements += pieces[static_cast<std::size_t>(send.piece)].count;
  return elements;
}

Schedule barrier_schedule(int rank, int size) {
  Schedule schedule;
  for (int distance = 1; distance < size; distance *= 2)
    schedule.push_back(
        {{{(rank + distance) % size, 0}}, {{(rank + size - distance) % size, 0}}, Then::copy});
  return schedule;
}

}  // namespace ringlet::comm
