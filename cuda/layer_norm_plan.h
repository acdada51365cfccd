// How the backward of LayerNorm divides a block of kLayerNormBlock rows into groups, contiguous
// runs of its rows. A block of threads spans the columns of one group. A thread keeps the same few
// columns of all its rows, so the column sums stay in its registers.
#pragma once

#include <cstdint>

#include "ringlet/core/ops/layer_norm.h"

namespace ringlet::cuda {

/// The longest rows that this plan divides.
inline constexpr std::int64_t kPlanColumns = 1024;
/// Rows that a thread has in flight.
inline constexpr int kPlanRows = 4;
/// All groups of a block have at most this many threads.
inline constexpr int kPlanThreads = 384;
inline constexpr int kPlanGroups = 8;
/// At least this many blocks fill a device; then one group per block is fastest: its sums are
/// fewer.
inline constexpr std::int64_t kPlanManyBlocks = 264;

struct LayerNormPlan {
  int threads;  // of a group, whole warps
  int groups;   // of a block: 1, 2, 4 or kPlanGroups
  RINGLET_HOST_DEVICE int warps() const { return threads / 32; }
  RINGLET_HOST_DEVICE int rows() const { return static_cast<int>(kLayerNormBlock) / groups; }
  /// Groups that have rows.
  std::int64_t parts(std::int64_t all_rows) const { return (all_rows + rows() - 1) / rows(); }
  /// Row sums that a group's warps exchange for kPlanRows rows. Double-buffered: a batch writes one
  /// half while slower threads read the other.
  RINGLET_HOST_DEVICE int exchange() const { return 2 * exchange_place(1); }
  RINGLET_HOST_DEVICE int exchange_place(int batch) const {
    return batch % 2 * warps() * 2 * kPlanRows;
  }
};

/// For `blocks` blocks of rows of `columns` columns, `pack` of them to a thread.
inline LayerNormPlan layer_norm_plan(std::int64_t blocks, std::int64_t columns, int pack) {
  const auto threads = static_cast<int>((columns + pack - 1) / pack);
  LayerNormPlan plan{(threads + 31) / 32 * 32, 1};
  const int most = blocks < kPlanManyBlocks ? kPlanGroups : 1;
  while (plan.groups < most && 2 * plan.groups * plan.threads <= kPlanThreads) plan.groups *= 2;
  return plan;
}

}  // namespace ringlet::cuda
