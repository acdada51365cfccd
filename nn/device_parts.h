// An arena with units on several devices of one process.
#pragma once

#include "ringlet/nn/arena.h"

namespace ringlet::nn {

/// A slice for each run of units on one device, all of them local.
class DeviceParts final : public ArenaShards {
 public:
  /// Error for a unit with parameters on several devices. The arena owns this.
  explicit DeviceParts(const Arena& arena);
  /// Error if a parameter was packed into another arena since.
  std::vector<LocalSlice> local_slices() override;
  void gather_norm_blocks(Tensor&) override {}

 private:
  void take(std::span<const Unit> units, std::int64_t end);

  const Arena& arena_;
  std::vector<LocalSlice> slices_;
};

}  // namespace ringlet::nn
