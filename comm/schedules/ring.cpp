// The ranks form a ring: each sends to the next one and receives from the previous one. Every link
// carries the same number of bytes in every step.
#include "ringlet/comm/schedule.h"

namespace ringlet::comm {
namespace {

// One rank's position in the ring, and its kinds of steps. Pieces are counted modulo the size.
struct RingRank {
  int rank;
  int size;

  int around(int i) const { return ((i % size) + size) % size; }
  Transfer to_next(int piece) const { return {around(rank + 1), around(piece)}; }
  Transfer from_previous(int piece) const { return {around(rank - 1), around(piece)}; }

  /// Sends piece `out`; adds the received data to piece `in` here.
  Step send_receive_add(int out, int in) const {
    return {{to_next(out)}, {from_previous(in)}, Then::add};
  }
  /// Sends piece `out`; the received data replaces piece `in` here.
  Step send_receive_copy(int out, int in) const {
    return {{to_next(out)}, {from_previous(in)}, Then::copy};
  }
};

}  // namespace

// Three ranks, pieces 0, 1 and 2: the piece that each sends in each step, and the one it owns at
// the end:
//
//            step 0   step 1             The sum of piece 2 starts at rank 0. Rank 1 adds its own,
//   rank 0   2        1        owns 0    then rank 2: there it is complete. In each step a rank
//   rank 1   0        2        owns 1    sends the piece that it added to in the step before.
//   rank 2   1        0        owns 2
Schedule ring_reduce_scatter(int rank, int size) {
  const RingRank seat{rank, size};
  Schedule schedule;
  for (int step = 0; step < size - 1; ++step)
    schedule.push_back(seat.send_receive_add(rank - 1 - step, rank - 2 - step));
  return schedule;
}

// The same three ranks, which now own one piece each:
//
//            step 0   step 1             Piece 0 leaves rank 0, is copied by rank 1 and then by
//   rank 0   0        2                  rank 2. In each step a rank sends the piece that it copied
//   rank 1   1        0                  in the step before.
//   rank 2   2        1
Schedule ring_all_gather(int rank, int size) {
  const RingRank seat{rank, size};
  Schedule schedule;
  for (int step = 0; step < size - 1; ++step)
    schedule.push_back(seat.send_receive_copy(rank - step, rank - 1 - step));
  return schedule;
}

Schedule ring_all_reduce(int rank, int size) {
  Schedule schedule = ring_reduce_scatter(rank, size);
  for (Step& step : ring_all_gather(rank, size)) schedule.push_back(std::move(step));
  return schedule;
}

// The ring is cut before the root into a chain, through which n pieces follow each other. A rank at
// distance d from the root receives piece p in step p + d - 1 and sends it in the next step.
Schedule ring_broadcast(int rank, int size, int root) {
  const RingRank seat{rank, size};
  const int distance = seat.around(rank - root);
  Schedule schedule;
  for (int step = 0; step < 2 * (size - 1); ++step) {
    const int in = step - distance + 1, out = step - distance;
    Step now{.then = Then::copy};
    if (distance > 0 && 0 <= in && in < size) now.receives.push_back(seat.from_previous(in));
    if (distance < size - 1 && 0 <= out && out < size) now.sends.push_back(seat.to_next(out));
    schedule.push_back(now);
  }
  return schedule;
}

}  // namespace ringlet::comm
