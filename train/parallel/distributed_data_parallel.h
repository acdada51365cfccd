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

#include <functional>

#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

/// Elements [begin, end) of a gradient arena, which are reduced together.
struct Bucket {
  std::int64_t begin;
  std::int64_t end;
  bool operator==(const Bucket&) const = default;
};

/// Cuts [0, numel) into buckets of at most `cap` elements, the first of at most `first`, in the
/// order in which backward completes them. The loss head lies at the end of the arena and comes
/// first, then the layers from last to first, then the embeddings. The ranges `alone`, ascending,
/// are separate buckets.
std::vector<Bucket> cut_buckets(std::int64_t numel, std::int64_t first, std::int64_t cap,
                                const std::vector<Bucket>& alone = {});

/// The gradients of a bucket on this rank. Where none is reduced now, they are 0.
struct GradientBucket {
  std::size_t index;  // of the bucket, the same at every step
  Tensor gradients;   // (n), for the hook to replace by their sum over the ranks
};
/// Begins to reduce a bucket while backward runs. The function that it returns is called after
/// backward, in the order of the buckets, and leaves the sum in `gradients`.
using CommunicationHook =
    std::function<std::function<void()>(const comm::Group& group, const GradientBucket& bucket)>;

struct DistributedDataParallelOptions {
  double bucket_cap_mb = 25;   // MiB of gradients per all-reduce
  double first_bucket_mb = 1;  // MiB of the first one, which is reduced early in backward
  /// Divides the summed gradients by the number of ranks, as PyTorch does: for a loss that is the
  /// mean over this rank's rows. If false, losses divide by the rows of the global batch.
  bool average = false;
  CommunicationHook communication_hook = {};  // instead of an all-reduce of every bucket
  int logical_ranks = 0;                      // see RankStrategy
};

/// Per step it moves 2 (n - 1) / n x the parameters; of an embedding table larger than a bucket,
/// only the rows that were used, unless there are more logical ranks than ranks. Parameters,
/// gradients and optimizer state are whole on every rank. Sums, not means, unless Options::average:
/// losses divide by the rows of the global batch. The module must outlive it. A parameter that the
/// loss does not reach is an error that names it. Parameters of a loss of another data set are
/// exempt (see ReachCheck). The sums of several backwards without zero_grad add up; with all but
/// the last under no_sync less is moved, and no sum is stashed. After a backward that threw, it
/// refuses to continue.
class DistributedDataParallel final : public RankStrategy {
 public:
  using Options = DistributedDataParallelOptions;
  DistributedDataParallel(nn::Module& module, const comm::Group& group, Options options = {});

  // ---- for the optimizer: this rank holds everything ----
  const comm::Group& replicas() const override { return group_; }
  std::vector<nn::LocalSlice> local_slices() override;
  std::string why_no_graphs() const override;

  void end_logical_rank(bool counts) override;
  // A bucket is reduced when its gradients are complete and all earlier buckets are in flight: the
  // same order on every rank.
  void backward_begins(std::span<autograd::VariableState* const> reached) override;
  void grad_ready(autograd::VariableState& leaf) override;
  void backward_ends() override;

 private:
  struct BucketState {
    bool active = false;       // some gradient in it waits to be reduced
    std::int64_t waiting = 0;  // parameters with an incomplete gradient
  };
  void leave_out_unwritten() override;
  template <class Visit>
  void for_buckets(const Item& item, Visit&& visit);
  void launch_complete();
  void launch_next();
  bool exchange_rows(const Bucket& bucket);
  void clear_others(const Bucket& bucket);
  void reduce_rest();

  std::vector<Bucket> buckets_;
  std::vector<BucketState> states_;
  CommunicationHook hook_;
  comm::LogicalSum sum_;                           // of the arena's gradients
  std::vector<std::function<void()>> reductions_;  // in flight
  std::size_t next_ = 0;
  bool reducing_ = false;
};

}  // namespace ringlet::train
