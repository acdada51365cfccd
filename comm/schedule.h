// Schedules: which rank sends which piece to which peer, and when. A schedule is data, made without
// moving a byte: one rank's part of a collective. It is the same for every transport, dtype and
// size.
//
//   buffer   the data of a collective, on every rank or, for gather and scatter, on the root
//   piece    a part of the buffer; piece r is rank r's: it is reduced there and sent from there
//   segment  a stretch of a long buffer that runs through the schedule separately, cut into its
//            own pieces, so that its results are still in the cache
//   step     a rank's sends and receives at one time, and its use of the received data
//   node     a reduction may be over more logical ranks than ranks (logical_sum.h): a rank's buffer
//            then has the sums of several nodes of a tree, all of the same size
//
// Steps are numbered the same way on all ranks: a send of step s is received in step s.
#pragma once

#include <cstdint>
#include <vector>

#include "ringlet/comm/types.h"

namespace ringlet::comm {

struct Transfer {
  int peer = 0;
  int piece = 0;
  int node = 0;  // of the sender's, that the piece is of
  bool operator==(const Transfer&) const = default;
};

/// The use of the pieces received in a step.
enum class Then : std::uint8_t {
  copy,     // each is copied to its place in the buffer
  add,      // combined with the same piece here: the received partial sum, then mine
  add_all,  // my piece of every node of every rank, combined by the tree, in rank order
  stack     // my piece of every rank, one after another in rank order
};

struct Step {
  std::vector<Transfer> sends = {};
  std::vector<Transfer> receives = {};
  Then then = Then::copy;
  /// add_all: the additions that follow each node; none if the nodes are added like leaves.
  std::vector<std::uint8_t> additions = {};
  bool operator==(const Step&) const = default;
};
using Schedule = std::vector<Step>;

/// The schedule of a collective by an algorithm; none if that is native. An all-reduce is a
/// reduce-scatter, then an all-gather. In one launch an algorithm sends as its namesake. Gather,
/// scatter, all-to-all and send have one schedule for ring and direct.
Schedule make_schedule(Op op, Algorithm algorithm, int rank, int size, int root = 0);

/// Where a collective cuts a tensor by itself, pieces have edges at these: cache lines of f32.
inline constexpr std::int64_t kPieceAlign = 16;
/// Pieces that a schedule names: at least 1.
int count_pieces(const Schedule& schedule);
/// Elements that a rank sends under this schedule.
std::int64_t elements_sent(const Schedule& schedule, const Pieces& pieces);

}  // namespace ringlet::comm
