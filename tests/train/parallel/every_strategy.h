// The strategies over several ranks, with the relevant options.
#pragma once

#include "ringlet/ringlet.h"
#include "tiny.h"

namespace tiny {

using Attached = std::shared_ptr<void>;

template <class Strategy>
auto attach(typename Strategy::Options options = {}) {
  return [=](nn::Module& module, const comm::Group& group) -> Attached {
    return std::make_shared<Strategy>(module, group, options);
  };
}
/// DDP, ZeRO-1, ZeRO-2 and FSDP.
inline std::vector<std::function<Attached(nn::Module&, const comm::Group&)>> each_strategy() {
  using namespace ringlet::train;
  return {attach<DistributedDataParallel>(), attach<ShardedDataParallel>({1}),
          attach<ShardedDataParallel>({2}), attach<FullySharded>()};
}

struct Parallel {
  const char* name;
  std::function<Attached(Model&, const comm::Group&)> attach;
};

template <class Strategy>
Parallel parallel(const char* name, typename Strategy::Options options, bool recompute = false) {
  return {name, [=](Model& model, const comm::Group& group) {
            model.encoder.transformer()->set_checkpointing(recompute);
            return tiny::attach<Strategy>(options)(*model.loss, group);
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
      parallel<FullySharded>("FSDP", {}),
      parallel<FullySharded>("FSDP, parameters kept for backward",
                             {.reshard_after_forward = false}),
      parallel<FullySharded>("FSDP, nothing fetched ahead", {.prefetch = false}),
      parallel<Ddp>("DDP, layers recomputed", {.bucket_cap_mb = 1, .first_bucket_mb = kKiB},
                    kRecompute),
      parallel<FullySharded>("FSDP, layers recomputed", {}, kRecompute),
  };
}

}  // namespace tiny
