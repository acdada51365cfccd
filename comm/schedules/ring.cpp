// The ranks form a ring: each sends to the next one and receives from the previous one. Every link
// carries the same number of bytes in every step.
#include "ringlet/comm/schedule.h"

namespace ringlet::comm {
namespace {

// A rank sends piece `out` to the next one and receives piece `in` from the previous one. Pieces
// are counted modulo the size.
Step pass(int rank, int size, int out, int in, Then then) {
  const auto around = [&](int i) { return ((i % size) + size) % size; };
  return {{{around(rank + 1), around(out)}}, {{around(rank - 1), around(in)}}, then};
}

}  // namespace

// Three ranks, pieces 0, 1 and 2: the piece that each sends in each step, and the one it owns at
// the end:
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

// The same three ranks, which now own one piece each:
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

Schedule ring_all_reduce(int rank, int size) {
  Schedule schedule = ring_reduce_scatter(rank, size);
  for (Step& step : ring_all_gather(rank, size)) schedule.push_back(std::move(step));
  return schedule;
}

// The ring is cut before the root into a chain, through which n pieces follow each other. A rank at
// distance d from the root receives piece p in step p + d - 1 and sends it in the next step.
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

}  // namespace ringlet::comm
