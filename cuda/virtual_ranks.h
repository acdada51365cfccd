// Ranks of one device, which one launch runs: what they share, and their all-reduce.
#pragma once

#include <memory>
#include <span>

#include "ringlet/cuda/all_reduce.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

struct VirtualRanksOptions {
  double seconds = 30;  // the longest wait of a rank for another
  std::int64_t most_chunk_bytes = kMostChunkBytes;
};

/// Not for several threads, nor streams, at once.
class VirtualRanks {
 public:
  VirtualRanks(Device device, int ranks, VirtualRanksOptions options = {});
  ~VirtualRanks();
  VirtualRanks(const VirtualRanks&) = delete;
  VirtualRanks& operator=(const VirtualRanks&) = delete;

  /// In place, in the order of the current stream; see cuda/all_reduce.h. data[r] is rank r's, of
  /// edges.back() elements; piece r is [edges[r], edges[r + 1]), as in plan_all_reduce.
  void all_reduce(std::span<void* const> data, std::span<const std::int64_t> edges, DType dtype,
                  Route route, CombineOp op = CombineOp::sum, double scale = 1);
  /// Waits for the current stream; throws where a rank waited too long.
  void synchronize() const;

  /// For launches of some of the ranks.
  PeerView view(std::span<void* const> data) const;

 private:
  struct Release {
    void operator()(std::uint64_t* word) const;
  };

  Device device_;
  VirtualRanksOptions options_;
  int blocks_;                                     // of a rank, at most
  Workspace flags_;                                // (ranks, blocks, ranks) u32
  Workspace staging_;                              // (ranks, blocks, slots, chunk) f64 at most
  std::unique_ptr<std::uint64_t, Release> error_;  // pinned
  PeerView view_{};
};

}  // namespace ringlet::cuda
