// Where the ranks of an in-kernel collective find each other: plain pointers into the memory of the
// GPU that they share.
#pragma once

#include <cstdint>

#include "ringlet/core/host_device.h"

namespace ringlet::cuda {

inline constexpr int kMostPeers = 32;

struct PeerView {
  int ranks;
  /// (n) of each rank, read by its peers and written by itself alone.
  void* data[kMostPeers];
  /// Partial sums of each rank, likewise: AllReducePlan::staging() of them, at multiples of 16
  /// bytes, of any content.
  void* staging[kMostPeers];
  /// (blocks, ranks): how far block b of each peer is, raised there by the peer. All 0 on all ranks
  /// before the first collective, and since then the kernels' alone: values only grow, from one
  /// collective to the next, so that nobody resets them. A rank's own column is what its blocks
  /// begin from.
  std::uint32_t* flags[kMostPeers];
  /// Host memory that the device sees; 0 until a wait takes too long, then the word of a Stall.
  std::uint64_t* error;
};

/// A wait that took too long.
struct Stall {
  static constexpr int kEnd = 0xff;  // the step of who waits for its readers before it ends

  int rank;
  int peer;  // that it waited for
  int step;  // of the schedule
  std::uint32_t segment;

  /// As one word, never 0: less for who waits earlier in the schedule, nearer to the cause.
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
