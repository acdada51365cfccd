// Ranks of one GPU, which one launch runs: what they share, and their all-reduce.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "ringlet/core/device/stream.h"
#include "ringlet/cuda/all_reduce.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

struct VirtualRanksOptions {
  double seconds = 30;  // the longest wait of a rank for another
  std::int64_t most_chunk_bytes = kMostChunkBytes;
};

/// Graphs that its all-reduces were captured in go first.
class VirtualRanks final : public DeviceRanks {
 public:
  VirtualRanks(Device device, int ranks, VirtualRanksOptions options = {});
  ~VirtualRanks() override;
  VirtualRanks(const VirtualRanks&) = delete;
  VirtualRanks& operator=(const VirtualRanks&) = delete;

  void all_reduce(std::span<void* const> data, std::span<const std::int64_t> edges, DType dtype,
                  CombineRoute route, CombineOp op = CombineOp::sum, double scale = 1) override;
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
  ringlet::SideStream own_;                        // its memory belongs to no capture
  std::optional<Workspace> flags_;                 // (ranks, blocks, ranks) u32
  std::optional<Workspace> staging_;               // (ranks, blocks, slots, chunk) f64 at most
  std::unique_ptr<std::uint64_t, Release> error_;  // pinned
  Event ended_;                                    // of the last launch outside a capture
  PeerView view_{};
};

}  // namespace ringlet::cuda
