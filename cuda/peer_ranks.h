// Ranks of GPUs that read each other's memory: what they share, and their collectives.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ringlet/core/device/stream.h"
#include "ringlet/cuda/all_reduce.h"
#include "ringlet/cuda/bad_input.h"
#include "ringlet/cuda/launch_gate.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

struct PeerRanksOptions {
  double seconds = 30;  // the longest wait of a rank for another
  std::int64_t most_chunk_bytes = kMostChunkBytes;
};

/// Graphs that its collectives were captured in go first.
class PeerRanks final : public DeviceRanks {
 public:
  /// devices[r] is that of rank r. Error unless they have peer access to each other.
  explicit PeerRanks(std::span<const Device> devices, PeerRanksOptions options = {});
  ~PeerRanks() override;
  PeerRanks(const PeerRanks&) = delete;
  PeerRanks& operator=(const PeerRanks&) = delete;

  void run(const PeerCall& call, Device device) override;
  void load(const PeerCall& call, Device device) override { load_all_reduce(call, device); }
  void abandon() noexcept override;

  /// For launches of some of the ranks.
  PeerView view(const PeerCall& call) const;

 private:
  struct Release {
    void operator()(std::uint64_t* word) const;
  };
  /// Memory for the ranks of one device.
  struct OnDevice {
    explicit OnDevice(Device its) : device(its), own(its), ended(its) {}
    Device device;
    std::vector<int> ranks = {};
    ringlet::SideStream own;                  // its memory belongs to no capture
    std::optional<Workspace> flags, staging;  // (ranks here, blocks, ranks) u32 and
                                              // (ranks here, blocks, slots, chunk) f64 at most
    Event ended;                              // of the last launch outside a capture
  };

  void allocate(OnDevice& here);
  OnDevice& on(Device device);

  PeerRanksOptions options_;
  int blocks_;                                     // of a rank, at most
  std::unique_ptr<std::uint64_t, Release> error_;  // pinned
  std::shared_ptr<LaunchRound> round_;             // null: one device; shared with graphs
  std::list<OnDevice> devices_;
  PeerView view_{};
};

/// Throws if a rank of a living PeerRanks waited too long, or was abandoned: what it should have
/// written must not be read.
void check_peer_ranks();
/// For all waits of the host.
inline void check_reports() {
  check_bad_input();
  check_peer_ranks();
}

}  // namespace ringlet::cuda
