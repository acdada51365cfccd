// Schedules: which rank sends which piece to which peer, and when. A schedule is data, made without
// moving a byte: one rank's part of a collective. It is the same for every transport, dtype and
// size.
//
//   buffer   the data of a collective, the same number of elements on every rank
//   piece    a part of the buffer; piece r is rank r's: it is reduced there and sent from there
//   segment  a stretch of a long buffer that runs through the schedule separately, cut into its
//            own pieces, so that its results are still in the cache
//   step     a rank's sends and receives at one time, and its use of the received data
//
// Steps are numbered the same way on all ranks: a send of step s is received in step s.
// Costs are per rank: steps, and bytes sent for a buffer of B bytes on n ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "ringlet/comm/types.h"

namespace ringlet::comm {

struct Transfer {
  int peer = 0;
  int piece = 0;
  bool operator==(const Transfer&) const = default;
};

/// The use of the pieces received in a step.
enum class Then : std::uint8_t {
  copy,    // each is copied to its place in the buffer
  add,     // combined with the same piece here: the received partial sum, then mine
  add_all  // my piece of every rank, combined in rank order, mine at its position
};

struct Step {
  std::vector<Transfer> sends = {};
  std::vector<Transfer> receives = {};
  Then then = Then::copy;
  bool operator==(const Step&) const = default;
};
using Schedule = std::vector<Step>;

// Direct: every rank receives from all its peers in one step.

/// 1 step, B (n-1)/n. Piece r of every rank is sent to rank r and added there in rank order.
Schedule direct_reduce_scatter(int rank, int size);
/// 1 step, B (n-1)/n.
Schedule direct_all_gather(int rank, int size);
/// 2 steps, 2 B (n-1)/n: reduce-scatter, all-gather.
Schedule direct_all_reduce(int rank, int size);
/// 1 step; the root sends B (n-1), its peers nothing. The buffer is one piece.
Schedule direct_broadcast(int rank, int size, int root);

// Ring: every rank exchanges data with its two neighbours only.

/// n-1 steps, B (n-1)/n. Piece r starts at rank r+1; each rank adds to it on its way to rank r.
Schedule ring_reduce_scatter(int rank, int size);
/// n-1 steps, B (n-1)/n. Each piece starts at its owner and is copied on its way round.
Schedule ring_all_gather(int rank, int size);
/// 2 (n-1) steps, 2 B (n-1)/n: reduce-scatter, all-gather.
Schedule ring_all_reduce(int rank, int size);
/// 2 (n-1) steps, B for all but the last rank of the chain. Pieces follow each other from the root.
Schedule ring_broadcast(int rank, int size, int root);

/// ceil(log2 n) steps of empty messages. In step s, rank r receives from rank r - 2^s, and so
/// indirectly from every rank that this one has received from.
Schedule barrier_schedule(int rank, int size);

/// The schedule of a collective by an algorithm; none if that is native. In one launch an
/// algorithm sends as its namesake.
Schedule make_schedule(Op op, Algorithm algorithm, int rank, int size, int root = 0);

/// Pieces that a schedule names: at least 1.
int count_pieces(const Schedule& schedule);
/// A hash of the pieces and the number of segments.
std::uint64_t hash_layout(const Pieces& pieces, std::int64_t segments);
/// Elements that a rank sends under this schedule.
std::int64_t elements_sent(const Schedule& schedule, const Pieces& pieces);

}  // namespace ringlet::comm
