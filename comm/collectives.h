// Running a schedule over a transport: what moves is a buffer of elements, cut into pieces and, if
// it is long, each piece into segments.
#pragma once

#include <iosfwd>

#include "ringlet/comm/schedule.h"
#include "ringlet/comm/transport.h"

namespace ringlet::comm {

/// One rank's part of a collective.
struct Collective {
  Call call;
  Schedule schedule;
  Pieces pieces;              // of the buffer, in elements
  std::int64_t segments = 1;  // of each piece
  Tensor buffer;              // (n): what is sent, and where pieces are received
  Tensor own;                 // (pieces[rank].count): where my piece is reduced to, if not in place
};

/// Segment `k` of `segments` of a piece: near-equal, edges at multiples of 16 elements.
Piece segment_of(const Piece& piece, std::int64_t k, std::int64_t segments);

/// Returns when the result is there and the peers have what they need of the buffer.
void run(const Collective& collective, Transport& transport, int rank, int size);

}  // namespace ringlet::comm
