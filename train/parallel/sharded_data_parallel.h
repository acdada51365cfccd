// ZeRO-1 and ZeRO-2: every rank holds all parameters and updates its share of them.
#pragma once

#include "ringlet/train/parallel/unit_sharding.h"

namespace ringlet::train {

struct ShardedDataParallelOptions {
  /// 1: the optimizer state is sharded. 2: the gradients, too; whole gradients exist for two units
  /// at a time. With more logical ranks than ranks this needs units in the order of the forward.
  int stage = 1;
  /// Divides the summed gradients by the number of ranks, as PyTorch does: for a loss that is the
  /// mean over this rank's rows. If false, losses divide by the rows of the global batch.
  bool average = false;
  int logical_ranks = 0;  // see RankStrategy
};

/// Used like DistributedDataParallel. Gradients are reduce-scattered unit by unit while backward
/// runs, and each rank's optimizer updates its pieces. The optimizer's step ends with an all-gather
/// of the parameters. In total 2 (n - 1) / n x the parameters, less a table's rows without
/// gradient.
class ShardedDataParallel final : public UnitSharding {
 public:
  using Options = ShardedDataParallelOptions;
  ShardedDataParallel(nn::Module& module, const comm::Group& group, Options options = {});
};

}  // namespace ringlet::train
