// FSDP, ZeRO's third stage: parameters, gradients and optimizer state sharded, unit by unit.
#pragma once

#include <memory>

#include "ringlet/train/parallel/strategy.h"

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
  /// are gathered as f32, and the bits are DDP's. Parameters are kept and saved as f32; the
  /// reduction of gradients is not affected.
  DType param_dtype = DType::f32;
  /// f32, or bf16: gradients are rounded to it before they are summed over the ranks, and their sum
  /// once more. bf16 halves what they move. The sum is kept as f32. Unlike param_dtype it changes
  /// the bits.
  DType reduce_dtype = DType::f32;
  /// The units: by default encoder layers, embeddings and other modules with is_unit(). A module
  /// chosen here must be used through its operator(), which gathers it. Parameters in no unit are
  /// gathered with the outermost module that holds them. Under a clipped norm the bits equal those
  /// of other strategies if their arena was planned with the same units (nn::plan).
  nn::UnitPolicy units = {};
  /// Divides the summed gradients by the ranks, as PyTorch does: for a loss that is the mean of
  /// this rank's rows. Off, losses divide by the rows of the global batch.
  bool average = false;
  /// Overwrites released memory with NaN, so that a use of it shows.
  bool poison = false;
};

/// Each rank keeps 16 bytes x parameters / n: data, gradients and two moments of its piece of each
/// unit. It temporarily holds three units' whole parameters, two units' gradients and the
/// parameters outside every unit. Per step it moves 3 (n - 1) / n x the parameters, less a table's
/// rows without gradient (ShardedDataParallel). A unit with a frozen parameter stays whole until
/// backward enters the next one.
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
  FullySharded(nn::Module& module, comm::Group group, Options options = {});

  /// Gradients of all units stay whole on each rank until the next backward without it.
  [[nodiscard]] NoSync no_sync() const { return NoSync(paused()); }
  /// How many no_sync() are alive.
  const std::shared_ptr<int>& paused() const { return strategy_->paused(); }

 private:
  std::shared_ptr<RankStrategy> strategy_;
};

}  // namespace ringlet::train
