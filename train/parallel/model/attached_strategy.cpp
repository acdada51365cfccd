#include "ringlet/train/parallel/model/attached_strategy.h"

#include <algorithm>

#include "ringlet/train/parallel/distributed_data_parallel.h"
#include "ringlet/train/parallel/fully_sharded.h"
#include "ringlet/train/parallel/model/sentence_data_parallel.h"
#include "ringlet/train/parallel/sharded_data_parallel.h"

namespace ringlet::train {

AttachedStrategy::AttachedStrategy(Strategy strategy, nn::Module& module, const comm::Group& group,
                                   const std::vector<Device>& devices, DType dtype,
                                   const StrategyOptions& options) {
  // Ddp of one rank has their sums.
  if (strategy == Strategy::none && options.logical_ranks > 1) strategy = Strategy::ddp;
  if (strategy == Strategy::dp) {
    if (!dynamic_cast<models::Loss*>(&module))
      fail_input("strategy dp: expected a loss over batches of sentences");
    replicas_ = std::make_shared<SentenceDataParallel>(
        module, devices, DataParallelOptions{options.timed, options.average, options.on_note});
  } else if (strategy == Strategy::ddp) {
    const double cap = options.bucket_cap_mb;
    strategy_ = std::make_shared<DistributedDataParallel>(
        module, group,
        DistributedDataParallelOptions{.bucket_cap_mb = cap,
                                       .first_bucket_mb = std::min(1.0, cap),
                                       .average = options.average,
                                       .logical_ranks = options.logical_ranks});
  } else if (strategy == Strategy::zero1 || strategy == Strategy::zero2) {
    const int stage = strategy == Strategy::zero1 ? 1 : 2;
    strategy_ = std::make_shared<ShardedDataParallel>(
        module, group, ShardedDataParallelOptions{stage, options.average, options.logical_ranks});
  } else if (strategy == Strategy::fsdp) {
    strategy_ = std::make_shared<FullySharded>(
        module, group,
        FullyShardedOptions{.reshard_after_forward = options.reshard_after_forward,
                            .prefetch = options.prefetch,
                            .param_dtype = dtype,
                            .units = options.units,
                            .shard_size = options.shard_size,
                            .average = options.average,
                            .logical_ranks = options.logical_ranks});
  } else {
    RINGLET_CHECK(strategy == Strategy::none, "strategy ", static_cast<int>(strategy),
                  " is attached nowhere");
  }
}

double AttachedStrategy::seconds_exchanging() const {
  return replicas_ ? replicas_->seconds_exchanging() : 0;
}

}  // namespace ringlet::train
