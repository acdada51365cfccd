// DDP: every rank holds the whole model; gradients are summed over the ranks while backward runs.
//
//   DistributedDataParallel ddp(loss, world);
//   AdamW optimizer(loss);
//   for (const models::PackedBatch& batch : loader) {   // this rank's part of each global batch
//     loss(batch).backward();
//     optimizer.step();
//     optimizer.zero_grad();
//   }
#pragma once

#include <memory>
#include <span>

#include "ringlet/train/parallel/buckets.h"
#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

struct DistributedDataParallelOptions {
  double bucket_cap_mb = 25;   // MiB of gradients per all-reduce
  double first_bucket_mb = 1;  // MiB of the first one, which is reduced early in backward
  /// Divides the summed gradients by the number of ranks, as PyTorch does: for a loss that is the
  /// mean over this rank's rows. If false, losses divide by the rows of the global batch.
  bool average = false;
};

/// Per step it moves 2 (n - 1) / n x the parameters; of an embedding table larger than a bucket,
/// only the rows that were used. Parameters, gradients and optimizer state are whole on every rank.
/// Sums, not means, unless Options::average: losses divide by the rows of the global batch. While
/// it lives it is attached to the module, which must outlive it. A parameter that the loss does not
/// reach is an error that names it. Parameters of a loss of another data set are exempt (see
/// ReachCheck). The sums of several backwards without zero_grad add up; with all but the last under
/// no_sync less is moved, and no sum is set aside. After a backward that threw, it refuses to
/// continue.
class DistributedDataParallel {
 public:
  using Options = DistributedDataParallelOptions;
  DistributedDataParallel(nn::Module& module, comm::Group group, Options options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Gradient accumulation: all backwards of a step but the last run under it.
  [[nodiscard]] NoSync no_sync() const { return NoSync(paused()); }
  /// The number of no_sync() guards that are alive.
  const std::shared_ptr<int>& paused() const;
  /// The buckets in the order in which they are reduced.
  std::span<const Bucket> buckets() const;

 private:
  class Reducer;
  std::shared_ptr<Reducer> reducer_;
};

}  // namespace ringlet::train
