// Running a schedule over a transport: what moves is a buffer of elements, cut into pieces and, if
// it is long, each piece into segments.
#pragma once

#include <iosfwd>
#include <span>

#include "ringlet/comm/schedule.h"
#include "ringlet/comm/transport.h"
#include "ringlet/core/stream.h"

namespace ringlet {
class DeviceRanks;
}

namespace ringlet::comm {

/// One rank's part of a collective.
struct Collective {
  Call call;
  Schedule schedule;
  Pieces pieces;              // of the buffer, in elements
  std::int64_t segments = 1;  // of each piece
  Tensor buffer;              // (n): what is sent, and where pieces are received
  Tensor own;                 // (pieces[rank].count): where my piece is reduced to, if not in place
  DeviceRanks* ranks = nullptr;  // rank 0's of a collective that is one launch
};

/// Segment `k` of `segments` of a piece: near-equal, edges at multiples of 16 elements.
Piece segment_of(const Piece& piece, std::int64_t k, std::int64_t segments);

/// A rank's part of a collective and what moves it; on a device its work goes to `stream`.
struct RankPart {
  const Collective* collective;
  Transport* transport;
  const Stream* stream;
  int rank;
  int size;
};

/// Runs the parts of one rank, or of all ranks of one process, which then need no other thread.
/// Returns when the result is there and the peers have what they need of the buffers; of a device,
/// when all that makes it so was given to the streams.
void run(std::span<const RankPart> parts);

/// Within a device, in the order of its work; of a CPU at once, in this thread.
void copy_bytes(Device device, std::byte* to, const std::byte* from, std::size_t nbytes);

}  // namespace ringlet::comm
