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
  double first_bucket_mb = 1;  // MiB of the first, which starts while backward has most to do
  /// Divides the summed gradients by the ranks, as PyTorch does: for a loss that is the mean of
  /// this rank's rows. Off, losses divide by the rows of the global batch.
  bool average = false;
};

/// Per step it moves 2 (n - 1) / n x the parameters (of an embedding table larger than a bucket,
/// the rows that were used) and keeps parameters, gradients and optimizer state whole. Sums, not
/// means, unless Options::average: losses divide by the rows of the global batch. While it lives it
/// is attached to the module, which must outlive it. A parameter that the loss does not reach is an
/// error that names it, unless it belongs to a loss of another data set (see ReachCheck). The sums
/// of several backwards without zero_grad add up; with all but the last under no_sync less is
/// moved, and nothing is set aside meanwhile. After a backward that threw it refuses to go on.
class DistributedDataParallel {
 public:
  using Options = DistributedDataParallelOptions;
  DistributedDataParallel(nn::Module& module, comm::Group group, Options options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Gradient accumulation: all backwards of a step but the last run under it.
  [[nodiscard]] NoSync no_sync() const { return NoSync(paused()); }
  /// How many no_sync() are alive.
  const std::shared_ptr<int>& paused() const;
  /// In the order in which they are reduced.
  std::span<const Bucket> buckets() const;

 private:
  class Reducer;
  std::shared_ptr<Reducer> reducer_;
};

}  // namespace ringlet::train
