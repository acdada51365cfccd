// The command line of the collectives bench, after nccl-tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::bench {

struct CollectivesOptions {
  int ranks = 2;
  Device device;  // GPU: ranks are threads, on the GPUs from this one on, round-robin
  std::vector<std::string> ops = {"all_reduce"};
  std::int64_t begin = 4 << 10;  // bytes
  std::int64_t end = 256 << 20;
  int factor = 4;
  int rounds = 3;
  double seconds = 0.2;  // of measuring, per size and contender in each round
  DType dtype = DType::f32;
  comm::TransportKind transport = comm::TransportKind::automatic;
  std::string algorithm = "all";
  std::int64_t segment_bytes = comm::GroupOptions{}.segment_bytes;
  bool mpi = true;
  std::string json;

  std::vector<std::int64_t> sizes() const;
  Device device_of(int rank) const;
  /// Whether all ranks share one GPU.
  bool share_a_gpu() const;
  /// Why in-kernel algorithms cannot be measured; empty if they can.
  std::string why_not_in_kernel() const;
  /// The same for collectives over NCCL.
  std::string why_not_nccl() const;
  /// The algorithms that "--algorithm all" skips, with the reason.
  std::vector<std::pair<std::string, std::string>> left_out() const;
};

/// Empty if help was requested and printed. Throws InputError.
std::optional<CollectivesOptions> parse_collectives(int argc, char** argv);

}  // namespace ringlet::bench
