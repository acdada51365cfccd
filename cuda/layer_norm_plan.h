// How the backward of LayerNorm divides a block of kLayerNormBlock rows. A thread keeps the same
// few columns of all its rows, so the column sums stay in its registers. A group of threads spans
// the columns, and the groups take contiguous runs of the block's rows.
#pragma once

#include <cstdint>

#include "ringlet/core/ops/layer_norm.h"

namespace ringlet::cuda {

/// The longest rows that this plan divides.
inline constexpr std::int64_t kPlanColumns = 1024;
/// Rows that a thread has in flight.
inline constexpr int kPlanRows = 4;
inline constexpr int kPlanThreads = 384;
/// At least this many blocks fill a device; then one group per block is fastest. The fewer threads
/// wait for each other, the better reads and writes overlap.
inline constexpr std::int64_t kPlanManyBlocks = 264;

struct LayerNormPlan {
  int group_threads;  // whole warps
  int groups;         // 1, 2, 4 or 8
  int pack;           // columns of a thread
  RINGLET_HOST_DEVICE int threads() const { return groups * group_threads; }
  RINGLET_HOST_DEVICE int warps() const { return group_threads / 32; }
  RINGLET_HOST_DEVICE int rows() const { return static_cast<int>(kLayerNormBlock) / groups; }
  /// Row sums that a group's warps exchange for kPlanRows rows. Double-buffered: a batch writes one
  /// half while slower threads read the other.
  RINGLET_HOST_DEVICE int exchange() const { return 2 * groups * warps() * 2 * kPlanRows; }
  RINGLET_HOST_DEVICE int exchange_place(int batch, int group) const {
    return (batch % 2 * groups + group) * warps() * 2 * kPlanRows;
  }
  /// The place of a column's sum in shared memory. Threads that write their i-th columns, and those
  /// that read adjacent columns, take 32 different banks.
  RINGLET_HOST_DEVICE int column_place(int column) const {
    return column % pack * (group_threads + 32 / pack) + column / pack;
  }
  RINGLET_HOST_DEVICE int column_places() const { return pack * group_threads + 32; }
  /// Elements of shared memory: the exchange, then the column sums (groups, 2, column_places()).
  RINGLET_HOST_DEVICE int shared() const { return exchange() + groups * 2 * column_places(); }
};

/// For `blocks` blocks of rows of `columns` columns, `pack` of them to a thread.
RINGLET_HOST_DEVICE LayerNormPlan layer_norm_plan(std::int64_t blocks, std::int64_t columns,
                                                  int pack) {
  const auto threads = static_cast<int>((columns + pack - 1) / pack);
  LayerNormPlan plan{(threads + 31) / 32 * 32, 1, pack};
  const int most = blocks < kPlanManyBlocks ? 8 : 1;
  while (plan.groups < most && 2 * plan.threads() <= kPlanThreads) plan.groups *= 2;
  return plan;
}

}  // namespace ringlet::cuda
