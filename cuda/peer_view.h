// The memory that the ranks of an in-kernel collective share: plain pointers into the memory of
// their common GPU.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

inline constexpr int kMostPeers = 32;

struct PeerView {
  int ranks;
  /// (n) of each rank; peers read it, only the rank itself writes it.
  void* data[kMostPeers];
  /// Partial sums of each rank, with the same access: AllReducePlan::staging() elements, at
  /// multiples of 16 bytes. Need no initialisation.
  void* staging[kMostPeers];
  /// (blocks, ranks): the progress of block b of each peer, raised by that peer. All 0 on all ranks
  /// before the first collective; after that only the kernels write them. Values only grow across
  /// collectives, so they need no reset. A rank's own column is the base that its blocks count
  /// from.
  std::uint32_t* flags[kMostPeers];
  /// Host memory visible to the device; 0 until a wait times out, then the word of a Stall.
  std::uint64_t* error;
};

/// A wait that timed out.
struct Stall {
  static constexpr int kEnd = 0xff;  // the step of a rank that waits for its readers at the end

  int rank;
  int peer;  // that `rank` waited for
  int step;  // of the schedule
  std::uint32_t segment;

  /// One word, never 0; less for a wait earlier in the schedule, which is nearer to the cause.
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

}  // namespace ringlet::cuda
