// ZeRO-1 and ZeRO-2: every rank holds all parameters and updates its share of them.
#pragma once

#include <memory>

#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

struct ShardedDataParallelOptions {
  /// 1: the optimizer state is sharded. 2: the gradients, too; whole ones exist for two units at a
  /// time.
  int stage = 1;
  /// Divides the summed gradients by the ranks, as PyTorch does: for a loss that is the mean of
  /// this rank's rows. Off, losses divide by the rows of the global batch.
  bool average = false;
};

/// Used as DistributedDataParallel is. Gradients are reduce-scattered unit by unit while backward
/// runs, each rank's optimizer updates its pieces, and the optimizer's step ends with an all-gather
/// of the parameters: 2 (n - 1) / n x the parameters in all, less a table's rows with no gradient.
class ShardedDataParallel {
 public:
  using Options = ShardedDataParallelOptions;
  ShardedDataParallel(nn::Module& module, comm::Group group, Options options = {});
  ~ShardedDataParallel();
  ShardedDataParallel(const ShardedDataParallel&) = delete;
  ShardedDataParallel& operator=(const ShardedDataParallel&) = delete;

  /// As in DistributedDataParallel; gradients are whole meanwhile, in every stage.
  [[nodiscard]] NoSync no_sync() const { return NoSync(paused()); }
  /// How many no_sync() are alive.
  const std::shared_ptr<int>& paused() const { return strategy_->paused(); }

 private:
  std::shared_ptr<RankStrategy> strategy_;
};

}  // namespace ringlet::train
