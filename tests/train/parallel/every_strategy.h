// The strategies over several ranks, with the relevant options.
#pragma once

#include "ringlet/train/parallel/distributed_data_parallel.h"
#include "ringlet/train/parallel/fully_sharded.h"
#include "ringlet/train/parallel/sharded_data_parallel.h"
#include "tiny.h"

namespace tiny {

/// A strategy attached to a model.
struct Attached {
  std::shared_ptr<void> strategy;
  std::shared_ptr<int> paused;
};

struct Parallel {
  const char* name;
  std::function<Attached(Model&, const comm::Group&)> attach;
};

template <class Strategy>
Parallel parallel(const char* name, typename Strategy::Options options, bool recompute = false) {
  return {name, [=](Model& model, const comm::Group& group) -> Attached {
            model.encoder.transformer()->set_checkpointing(recompute);
            auto strategy = std::make_shared<Strategy>(*model.loss, group, options);
            return {strategy, strategy->paused()};
          }};
}

inline std::vector<Parallel> every_strategy() {
  using namespace ringlet::train;
  using Ddp = DistributedDataParallel;
  constexpr double kKiB = 1.0 / 1024;  // in MiB
  constexpr bool kRecompute = true;
  return {
      parallel<Ddp>("DDP, buckets of 1 KiB", {.bucket_cap_mb = kKiB, .first_bucket_mb = kKiB}),
      parallel<Ddp>("DDP, buckets of 64 KiB",
                    {.bucket_cap_mb = 64 * kKiB, .first_bucket_mb = kKiB}),
      // In the tiny model one bucket holds everything except the loss's head.
      parallel<Ddp>("DDP, buckets of 1 MiB", {.bucket_cap_mb = 1, .first_bucket_mb = kKiB}),
      parallel<Ddp>("DDP, one bucket", {.bucket_cap_mb = 1024, .first_bucket_mb = 1024}),
      parallel<ShardedDataParallel>("ZeRO-1", {.stage = 1}),
      parallel<ShardedDataParallel>("ZeRO-2", {.stage = 2}),
      parallel<FullySharded>("FSDP", {.poison = true}),
      parallel<FullySharded>("FSDP, parameters kept for backward",
                             {.reshard_after_forward = false, .poison = true}),
      parallel<FullySharded>("FSDP, nothing fetched ahead", {.prefetch = false, .poison = true}),
      parallel<Ddp>("DDP, layers recomputed", {.bucket_cap_mb = 1, .first_bucket_mb = kKiB},
                    kRecompute),
      parallel<FullySharded>("FSDP, layers recomputed", {.poison = true}, kRecompute),
  };
}

}  // namespace tiny
