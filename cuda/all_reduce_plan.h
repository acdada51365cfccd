// The plan of an in-kernel all-reduce: index arithmetic that kernels and host share.
//
//   piece    as in comm/schedule.h: piece r is whole first at rank r
//   chunk    the elements of a piece that one block moves in a step; block b of a rank
//            communicates only with blocks b of its peers
//   segment  a stretch of all pieces, a chunk for each block, that runs through the whole schedule
//            before the next one begins, so that it is still in the cache when it is read again
//   signal   the progress of a block since the start of the collective, stored in its flags
//
// Ring, n ranks: steps 0 to n - 2 reduce, n - 1 to 2 n - 3 gather, as in comm/schedule.cpp. A rank
// reads from the previous rank and writes to its own memory. Direct: a rank sums its piece over all
// ranks, then reads the sums of its peers. A reduce-scatter is the first half of that, an
// all-gather the second.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/host_device.h"
#include "ringlet/core/device/device_objects.h"

namespace ringlet::cuda {

inline constexpr int kMostPeers = 32;

struct PeerView {
  int ranks;
  bool across_devices;  // signals then have the scope of the system
  /// (n) of each rank; peers read it, only the rank itself writes it.
  void* data[kMostPeers];
  /// Where each rank's sums of its piece go if it adds directly: their places in its data, or other
  /// memory of its own.
  void* own[kMostPeers];
  /// Partial sums of each rank, with the same access: AllReducePlan::staging() elements, at
  /// multiples of 16 bytes. Need no initialisation.
  void* staging[kMostPeers];
  /// (blocks, ranks): the progress of block b of each peer, raised by that peer. All 0 on all ranks
  /// before the first collective; after that only the kernels write them. Values only grow across
  /// collectives, so they need no reset. A rank's own column is the base that its blocks count
  /// from.
  std::uint32_t* flags[kMostPeers];
  /// Host memory visible to the device; 0 until a wait times out, then the word of a Stall, or
  /// kAbandoned.
  std::uint64_t* error;
};

/// A wait that timed out.
struct Stall {
  static constexpr int kEnd = 0xff;  // the step of a rank that waits for its readers at the end
  static constexpr std::uint64_t kAbandoned = 1;  // in place of a word: the host ended all waits

  int rank;
  int peer;  // that `rank` waited for
  int step;  // of the schedule
  std::uint32_t segment;

  /// One word, above kAbandoned; less for a wait earlier in the schedule, which is nearer to the
  /// cause.
  RINGLET_HOST_DEVICE std::uint64_t word() const {
    return std::uint64_t{1} << 63 | std::uint64_t{segment} << 24 |
           static_cast<std::uint64_t>(step) << 16 | static_cast<std::uint64_t>(rank) << 8 |
           static_cast<std::uint64_t>(peer);
  }
  static Stall of(std::uint64_t word) {
    const auto byte = [&](int bit) { return static_cast<int>(word >> bit & 0xff); };
    return {byte(8), byte(0), byte(16), static_cast<std::uint32_t>(word >> 24)};
  }
};

/// Elements [begin, begin + count) of the data.
struct Part {
  std::int64_t begin;
  std::int64_t count;
};

/// One step of a rank of the ring. Piece `piece` comes from the previous rank: first its data, then
/// a partial sum in `from_slot` of its staging, then (`gathers`) the whole sum.
struct RingStep {
  int piece;
  bool gathers;
  bool first;
  bool last;      // after this addition the piece is complete and is written to the data
  int from_slot;  // of the previous rank's staging
  int to_slot;    // of this rank's staging
};

struct AllReducePlan {
  /// Edges of pieces and chunks are multiples of this, except the end of the data: packs of every
  /// dtype begin there.
  static constexpr std::int64_t kEdge = 16;

  CombineRoute route;
  int ranks;
  int blocks;          // of a rank
  std::int64_t chunk;  // elements, a multiple of kEdge
  std::int64_t segments;
  std::int64_t edge[kMostPeers + 1];  // piece p is [edge[p], edge[p + 1])

  RINGLET_HOST_DEVICE std::int64_t count(int piece) const { return edge[piece + 1] - edge[piece]; }

  RINGLET_HOST_DEVICE int around(int rank) const { return (rank % ranks + ranks) % ranks; }

  RINGLET_HOST_DEVICE Part part(int piece, std::int64_t segment, int block) const {
    const std::int64_t offset = (segment * blocks + block) * chunk, left = count(piece) - offset;
    return {edge[piece] + offset, left <= 0 ? 0 : left < chunk ? left : chunk};
  }

  // ---- the ring ----------------------------------------------------------------------------

  RINGLET_HOST_DEVICE int ring_steps() const { return 2 * (ranks - 1); }

  RINGLET_HOST_DEVICE RingStep ring_step(int rank, int step) const {
    const int gathered = step - (ranks - 1);
    if (gathered >= 0) return {around(rank - 1 - gathered), true, false, false, 0, 0};
    return {around(rank - 2 - step), false, step == 0, step == ranks - 2, step - 1, step};
  }

  /// Partial sums of one chunk that a rank keeps at a time, a slot each. The next segment
  /// overwrites them without a signal: the sums received by then have passed through the next rank,
  /// which read these slots first.
  RINGLET_HOST_DEVICE int slots() const {
    return route == CombineRoute::ring && ranks > 2 ? ranks - 2 : 0;
  }
  RINGLET_HOST_DEVICE std::int64_t slot_begin(int block, int slot) const {
    return (static_cast<std::int64_t>(block) * slots() + slot) * chunk;
  }
  /// In elements of the accumulation type.
  std::int64_t staging() const { return slot_begin(blocks, 0); }

  // ---- signals -----------------------------------------------------------------------------

  static constexpr std::uint32_t kReady = 1;  // the data may be read

  RINGLET_HOST_DEVICE std::uint32_t signals_of_segment() const {
    return route == CombineRoute::ring ? static_cast<std::uint32_t>(ring_steps()) - 1 : 1;
  }
  /// The signal that `step` of the segment waits for before it reads from a peer; a rank raises it
  /// after the step before.
  RINGLET_HOST_DEVICE std::uint32_t signal(std::int64_t segment, int step) const {
    return kReady + static_cast<std::uint32_t>(segment) * signals_of_segment() +
           static_cast<std::uint32_t>(step);
  }
  /// After this signal the rank reads no peer's memory any more.
  RINGLET_HOST_DEVICE std::uint32_t done() const { return signal(segments, 0) + 1; }
};

/// Piece p of the data is [edges[p], edges[p + 1]), as comm::even_pieces divides it; edges are
/// multiples of kEdge, except the last ones at the end of the data. A rank has at most
/// `most_blocks` blocks. Each takes at most `most_chunk` elements of a piece at a time and, if
/// possible, at least `least_chunk`.
inline AllReducePlan plan_all_reduce(CombineRoute route, std::span<const std::int64_t> edges,
                                     int most_blocks, std::int64_t least_chunk,
                                     std::int64_t most_chunk) {
  constexpr std::int64_t kEdge = AllReducePlan::kEdge;
  const int ranks = static_cast<int>(edges.size()) - 1;
  RINGLET_CHECK(2 <= ranks && ranks <= kMostPeers, "[all_reduce] of ", ranks, " ranks: 2 to ",
                kMostPeers, " fit in a launch");
  const auto chunks = [](std::int64_t n, std::int64_t of) { return (n + of - 1) / of; };
  AllReducePlan plan{route, ranks, 1, kEdge, 0, {}};
  std::int64_t longest = 0;
  for (std::size_t p = 0; p < edges.size(); ++p) {
    RINGLET_CHECK((p > 0 || edges[p] == 0) && (edges[p] % kEdge == 0 || edges[p] == edges.back()) &&
                      (p == 0 || edges[p - 1] <= edges[p]),
                  "[all_reduce] a piece ends at element ", edges[p], " of ", edges.back());
    plan.edge[p] = edges[p];
    if (p > 0) longest = std::max(longest, edges[p] - edges[p - 1]);
  }
  plan.blocks = static_cast<int>(
      std::clamp<std::int64_t>(chunks(longest, least_chunk), 1, std::max(most_blocks, 1)));
  const std::int64_t even = chunks(chunks(longest, plan.blocks), kEdge) * kEdge;
  plan.chunk = std::clamp(even, kEdge, std::max(most_chunk / kEdge, std::int64_t{1}) * kEdge);
  plan.segments = chunks(longest, plan.chunk * plan.blocks);
  RINGLET_CHECK(plan.segments < std::int64_t{1} << 24, "[all_reduce] of ", edges.back(),
                " elements in chunks of ", plan.chunk, ": too many segments");
  return plan;
}

/// Whether a flag that only grows, and may wrap around, has reached `target`.
RINGLET_HOST_DEVICE bool reached(std::uint32_t flag, std::uint32_t target) {
  return static_cast<std::int32_t>(flag - target) >= 0;
}

/// "rank 2 waited too long for rank 1 in step 3, segment 0".
inline std::string describe(const Stall& stall) {
  const std::string where = stall.step == Stall::kEnd
                                ? "at the end"
                                : str("in step ", stall.step, ", segment ", stall.segment);
  return str("rank ", stall.rank, " waited too long for rank ", stall.peer, ' ', where);
}

}  // namespace ringlet::cuda
