// FSDP, ZeRO's third stage: parameters, gradients and optimizer state sharded, unit by unit.
#pragma once

#include "ringlet/comm/group.h"
#include "ringlet/core/base/dtype.h"
#include "ringlet/nn/pack.h"
#include "ringlet/train/parallel/no_sync.h"

namespace ringlet::train {

struct FullyShardedOptions {
  /// Releases a unit's parameters after its forward and gathers them again for its backward. Off,
  /// they stay from forward to backward: more memory, a third less to move.
  bool reshard_after_forward = true;
  /// Gathers the next unit while the present one computes.
  bool prefetch = true;
  /// f32, or bf16: the dtype in which units gather their matrices. bf16 applies to matrices that
  /// only products read (Module::only_multiplied), next to bf16 activations. Those are set by
  /// Module::compute_dtype of the unit or of a module that holds it. This saves the unit a third of
  /// what it moves, and changes no bit: the matrices would be rounded where they are used. Unlike
  /// PyTorch's MixedPrecisionPolicy it makes no module compute in bf16: units that compute in f32
  /// are gathered as f32, and the bits are DDP's. Parameters are kept and saved as f32, and
  /// gradients are summed as f32.
  DType param_dtype = DType::f32;
  /// The units: by default encoder layers, embeddings and other modules with is_unit(). A module
  /// chosen here must be used through its operator(), which gathers it. Parameters in no unit are
  /// gathered with the outermost module that holds them. Under a clipped norm the bits equal those
  /// of other strategies if their arena was planned with the same units (nn::plan).
  nn::UnitPolicy units = {};
  /// Hybrid sharding, PyTorch's HYBRID_SHARD: so many consecutive ranks share one set of shards.
  /// The other ranks hold replicas of it. 0: all ranks share one set.
  int shard_size = 0;
  /// Divides the summed gradients by the ranks, as PyTorch does: for a loss that is the mean of
  /// this rank's rows. Off, losses divide by the rows of the global batch.
  bool average = false;
  /// See RankStrategy. Every forward is collective: if the ranks do not divide them, loaders need
  /// equal_batches.
  int logical_ranks = 0;
};

/// Each rank keeps 16 bytes x parameters / n: data, gradients and two moments of its piece of each
/// unit. It temporarily holds three units' whole parameters, two units' gradients and the
/// parameters outside every unit. Per step it moves 3 (n - 1) / n x the parameters, less a table's
/// rows without gradient (ShardedDataParallel). A unit with a frozen parameter stays whole until
/// backward enters the next one. With more logical ranks than ranks, units must be registered in
/// the order of the forward: others' gradients stay whole for longer.
///
/// A module that is a unit gathers its parameters before its forward and before its backward.
/// Parameters outside every unit are gathered when the outermost module that holds them is entered,
/// and kept until backward ends. Reading a parameter in between is an Error. So is reading its
/// gradient once that is summed: only the optimizer sees it. Every call of the module is
/// collective: all ranks must make the same ones, with or without gradients. Calls of encode match
/// by themselves, whatever texts each rank has. A module with weights that were not read yet
/// (from_pretrained) is sharded without ever being whole on a rank. After a forward or its hook
/// threw on all ranks, they may go on; after a backward that threw, further calls are refused. The
/// module stays sharded when this object is destroyed.
class FullySharded {
 public:
  using Options = FullyShardedOptions;
  FullySharded(nn::Module& module, const comm::Group& group, Options options = {});
  /// See RankStrategy.
  [[nodiscard]] NoSync no_sync() const { return NoSync(module_); }

 private:
  nn::Module& module_;
};

}  // namespace ringlet::train
