// The ring: each rank sends to the next one and receives from the previous one. Every link carries
// the same number of bytes in every step. Direct: every rank receives from all its peers in one
// step. Costs are per rank: steps, and bytes sent for a buffer of B bytes on n ranks.
#include "ringlet/comm/schedule.h"

#include <algorithm>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {

Pieces even_pieces(std::int64_t n, int parts, std::int64_t align) {
  RINGLET_CHECK(n >= 0 && parts > 0 && align > 0, "[even_pieces] of ", n, " elements, ", parts,
                " parts, edges at multiples of ", align);
  const std::int64_t blocks = (n + align - 1) / align;
  const auto edge = [&](int part) { return std::min(n, blocks * part / parts * align); };
  Pieces pieces;
  for (int part = 0; part < parts; ++part)
    pieces.push_back({edge(part), edge(part + 1) - edge(part)});
  return pieces;
}

namespace {

Schedule both(Schedule first, const Schedule& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// ---- ring ---------------------------------------------------------------------------------

// A rank sends piece `out` to the next one and receives piece `in` from the previous one. Pieces
// are counted modulo the size.
Step pass(int rank, int size, int out, int in, Then then) {
  const auto around = [&](int i) { return ((i % size) + size) % size; };
  return {{{around(rank + 1), around(out)}}, {{around(rank - 1), around(in)}}, then};
}

// n-1 steps, B (n-1)/n. Three ranks, pieces 0, 1 and 2: the piece that each sends in each step, and
// the one it owns at the end:
//
//            step 0   step 1             The sum of piece 2 starts at rank 0. Rank 1 adds its own,
//   rank 0   2        1        owns 0    then rank 2: there it is complete. In each step a rank
//   rank 1   0        2        owns 1    sends the piece that it added to in the step before.
//   rank 2   1        0        owns 2
Schedule ring_reduce_scatter(int rank, int size) {
  Schedule schedule;
  for (int step = 0; step < size - 1; ++step)
    schedule.push_back(pass(rank, size, rank - 1 - step, rank - 2 - step, Then::add));
  return schedule;
}

// n-1 steps, B (n-1)/n. The same three ranks, which now own one piece each:
//
//            step 0   step 1             Piece 0 leaves rank 0, is copied by rank 1 and then by
//   rank 0   0        2                  rank 2. In each step a rank sends the piece that it copied
//   rank 1   1        0                  in the step before.
//   rank 2   2        1
Schedule ring_all_gather(int rank, int size) {
  Schedule schedule;
  for (int step = 0; step < size - 1; ++step)
    schedule.push_back(pass(rank, size, rank - step, rank - 1 - step, Then::copy));
  return schedule;
}

// 2 (n-1) steps, B for all but the last rank of the chain. The ring is cut before the root into a
// chain, through which n pieces follow each other. A rank at distance d from the root receives
// piece p in step p + d - 1 and sends it in the next step.
Schedule ring_broadcast(int rank, int size, int root) {
  const int distance = (rank - root + size) % size;
  Schedule schedule;
  for (int step = 0; step < 2 * (size - 1); ++step) {
    const int in = step - distance + 1, out = step - distance;
    schedule.push_back(pass(rank, size, out, in, Then::copy));
    if (distance == 0 || in < 0 || in >= size) schedule.back().receives.clear();
    if (distance == size - 1 || out < 0 || out >= size) schedule.back().sends.clear();
  }
  return schedule;
}

// ---- direct -------------------------------------------------------------------------------

// The peers, the next rank first, so that not all ranks send to the same one at the same time.
std::vector<int> others(int rank, int size) {
  std::vector<int> peers;
  for (int distance = 1; distance < size; ++distance) peers.push_back((rank + distance) % size);
  return peers;
}

// 1 step, B (n-1)/n. Piece r of every rank is sent to rank r and added there by the tree.
Schedule direct_reduce_scatter(int rank, int size, Then then = Then::add_all) {
  Step step{.then = then};
  for (const int peer : others(rank, size)) {
    step.sends.push_back({peer, /*piece=*/peer});
    step.receives.push_back({peer, /*piece=*/rank});
  }
  return {step};
}

// 1 step, B (n-1)/n.
Schedule direct_all_gather(int rank, int size) {
  Step step{.then = Then::copy};
  for (const int peer : others(rank, size)) {
    step.sends.push_back({peer, /*piece=*/rank});
    step.receives.push_back({peer, /*piece=*/peer});
  }
  return {step};
}

// 1 step, from the root to its peers: the whole, B (n-1), or each one's piece, B (n-1)/n.
Schedule from_root(int rank, int size, int root, bool whole) {
  Step step;
  if (rank != root) step.receives.push_back({root, whole ? 0 : rank});
  for (const int peer : others(rank, size))
    if (rank == root) step.sends.push_back({peer, whole ? 0 : peer});
  return {step};
}

// 1 step, the other way: the peers send their piece.
Schedule to_root(int rank, int size, int root) {
  Schedule schedule = from_root(rank, size, root, /*whole=*/false);
  std::swap(schedule[0].sends, schedule[0].receives);
  return schedule;
}

// ceil(log2 n) steps of empty messages. In step s, rank r receives from rank r - 2^s, and so
// indirectly from every rank that this one has received from.
Schedule barrier(int rank, int size) {
  Schedule schedule;
  for (int distance = 1; distance < size; distance *= 2)
    schedule.push_back(
        {{{(rank + distance) % size, 0}}, {{(rank + size - distance) % size, 0}}, Then::copy});
  return schedule;
}

}  // namespace

Schedule make_schedule(Op op, Algorithm algorithm, int rank, int size, int root) {
  if (algorithm == Algorithm::native) return {};
  const bool ring = algorithm == Algorithm::ring || algorithm == Algorithm::in_kernel_ring;
  switch (op) {
    case Op::all_reduce:
      return both(make_schedule(Op::reduce_scatter, algorithm, rank, size),
                  make_schedule(Op::all_gather, algorithm, rank, size));
    case Op::reduce_scatter:
      return ring ? ring_reduce_scatter(rank, size) : direct_reduce_scatter(rank, size);
    case Op::all_gather:
      return ring ? ring_all_gather(rank, size) : direct_all_gather(rank, size);
    case Op::broadcast:
      return ring ? ring_broadcast(rank, size, root) : from_root(rank, size, root, /*whole=*/true);
    case Op::gather:
      return to_root(rank, size, root);
    case Op::scatter:
      return from_root(rank, size, root, /*whole=*/false);
    case Op::all_to_all:
      return direct_reduce_scatter(rank, size, Then::stack);
    case Op::send:
      return from_root(rank, size, root, /*whole=*/true);
    case Op::barrier:
      break;
  }
  return barrier(rank, size);
}

int count_pieces(const Schedule& schedule) {
  int count = 1;
  for (const Step& step : schedule)
    for (const auto* transfers : {&step.sends, &step.receives})
      for (const Transfer& transfer : *transfers) count = std::max(count, transfer.piece + 1);
  return count;
}

std::int64_t elements_sent(const Schedule& schedule, const Pieces& pieces) {
  std::int64_t elements = 0;
  for (const Step& step : schedule)
    for (const Transfer& send : step.sends)
      elements += pieces[static_cast<std::size_t>(send.piece)].count;
  return elements;
}

}  // namespace ringlet::comm
