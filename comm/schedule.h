// Schedules: who sends which piece to whom, and when. A schedule is data, made without moving a
// byte: one rank's part of a collective, the same whatever the transport, the dtype and the sizes.
//
//   buffer   what a collective works on, the same number of elements on every rank
//   piece    a part of the buffer; piece r is rank r's, it is reduced there and spread from there
//   segment  a stretch of a long buffer that runs through the schedule on its own, cut into pieces
//            of its own, so that what comes back is still in the cache
//   step     what a rank sends and receives together, and what it then does with what came in
//
// Steps are numbered alike on all ranks: what is sent in step s is received in step s.
// Costs are per rank: steps, and bytes sent for a buffer of B bytes on n ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "ringlet/comm/pieces.h"

namespace ringlet::comm {

struct Transfer {
  int peer = 0;
  int piece = 0;
  bool operator==(const Transfer&) const = default;
};

/// What becomes of the pieces received in a step.
enum class Then : std::uint8_t {
  copy,    // each takes its place in the buffer
  add,     // combined with the same piece here: what came first, then mine (a partial sum)
  add_all  // all of my piece, of every rank: combined in rank order, mine in its place
};

struct Step {
  std::vector<Transfer> sends = {};
  std::vector<Transfer> receives = {};
  Then then = Then::copy;
  bool operator==(const Step&) const = default;
};
using Schedule = std::vector<Step>;

// Direct: every rank fetches what it needs from every other at once.

/// 1 step, B (n-1)/n. Piece r of every rank meets at rank r and is added in rank order.
Schedule direct_reduce_scatter(int rank, int size);
/// 1 step, B (n-1)/n.
Schedule direct_all_gather(int rank, int size);
/// 2 steps, 2 B (n-1)/n: reduce-scatter, all-gather.
Schedule direct_all_reduce(int rank, int size);
/// 1 step; the root sends B (n-1), the others nothing. The buffer is one piece.
Schedule direct_broadcast(int rank, int size, int root);

// Ring: every rank speaks to its two neighbours alone.

/// n-1 steps, B (n-1)/n. Piece r starts at rank r+1 and grows on its way round to rank r.
Schedule ring_reduce_scatter(int rank, int size);
/// n-1 steps, B (n-1)/n. Each piece starts at its owner and is copied on its way round.
Schedule ring_all_gather(int rank, int size);
/// 2 (n-1) steps, 2 B (n-1)/n: reduce-scatter, all-gather.
Schedule ring_all_reduce(int rank, int size);
/// 2 (n-1) steps, B for all but the last in the chain. Pieces follow each other from the root.
Schedule ring_broadcast(int rank, int size, int root);

/// ceil(log2 n) steps of empty messages: in step s, rank r hears from rank r - 2^s, and through it
/// from all that it had heard from.
Schedule barrier_schedule(int rank, int size);

/// Elements that a rank sends under this schedule.
std::int64_t elements_sent(const Schedule& schedule, const Pieces& pieces);

}  // namespace ringlet::comm
