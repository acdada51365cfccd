#include "ringlet/train/parallel/model/attached_strategy.h"

#include <algorithm>

#include "ringlet/train/parallel/distributed_data_parallel.h"
#include "ringlet/train/parallel/fully_sharded.h"
#include "ringlet/train/parallel/model/sentence_data_parallel.h"
#include "ringlet/train/parallel/sharded_data_parallel.h"

namespace ringlet::train {

AttachedStrategy::AttachedStrategy(Strategy strategy, nn::Module& module, comm::Group group,
                                   const std::vector<Device>& devices, DType dtype,
                                   const StrategyOptions& options) {
  const auto keep = [&](auto parallel) {
    paused_ = parallel->paused();
    strategy_ = std::move(parallel);
  };
  if (strategy == Strategy::dp) {
    if (!dynamic_cast<models::Loss*>(&module))
      fail_input("strategy dp: expected a loss over batches of sentences");
    const auto parallel = std::make_shared<SentenceDataParallel>(
        module, devices, DataParallelOptions{options.timed, options.average, options.on_note});
    exchanging_ = [parallel] { return parallel->seconds_exchanging(); };
    keep(parallel);
  } else if (strategy == Strategy::ddp) {
    const double cap = options.bucket_cap_mb;
    keep(std::make_shared<DistributedDataParallel>(
        module, std::move(group),
        DistributedDataParallelOptions{.bucket_cap_mb = cap,
                                       .first_bucket_mb = std::min(1.0, cap),
                                       .average = options.average}));
  } else if (strategy == Strategy::zero1 || strategy == Strategy::zero2) {
    const int stage = strategy == Strategy::zero1 ? 1 : 2;
    keep(std::make_shared<ShardedDataParallel>(module, std::move(group),
                                               ShardedDataParallelOptions{stage, options.average}));
  } else if (strategy == Strategy::fsdp) {
    keep(std::make_shared<FullySharded>(
        module, std::move(group),
        FullyShardedOptions{.reshard_after_forward = options.reshard_after_forward,
                            .prefetch = options.prefetch,
                            .param_dtype = dtype,
                            .units = options.units,
                            .shard_size = options.shard_size,
                            .average = options.average}));
  } else {
    RINGLET_CHECK(strategy == Strategy::none, "strategy ", static_cast<int>(strategy),
                  " is attached nowhere");
  }
}

}  // namespace ringlet::train
