// Runs a schedule over a transport. A buffer of elements is cut into pieces; long pieces are cut
// into segments.
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
  Call call = {};
  Schedule schedule = {};
  Pieces pieces = {};         // of the buffer, in elements
  std::int64_t segments = 1;  // of each piece
  Tensor buffer = {};         // (n): sent from, and received into
  Tensor own = {};            // (pieces[rank].count): where my piece is reduced to, if not in place
  DeviceRanks* ranks = nullptr;  // rank 0's, for a collective that is one launch
};

/// Segment `k` of `segments` of a piece: near-equal, edges at multiples of 16 elements.
Piece segment_of(const Piece& piece, std::int64_t k, std::int64_t segments);

/// One rank's part of a collective. On a device its work is enqueued on `stream`.
struct RankPart {
  const Collective* collective;
  Transport* transport;
  const Stream* stream;
  int rank;
  int size;
};

/// Runs the parts of one rank, or of all ranks of one process, which then need no other thread. On
/// a CPU it returns when the result is there and the peers no longer read the buffers. On a device
/// it returns when all of this is enqueued on the streams.
void run(std::span<const RankPart> parts);

/// On a device: in stream order. On a CPU: in this thread, done when it returns.
void copy_bytes(Device device, std::byte* to, const std::byte* from, std::size_t nbytes);

}  // namespace ringlet::comm
