// FSDP, ZeRO's third stage: parameters, gradients and optimizer state sharded, unit by unit.
#pragma once

#include <memory>

#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

struct FullyShardedOptions {
  /// Lets a unit's parameters go after its forward and gathers them again for its backward. Off,
  /// they stay from forward to backward: more memory, a third less to move.
  bool reshard_after_forward = true;
  /// Gathers the next unit while the present one computes.
  bool prefetch = true;
  /// f32, or bf16 for layers that compute in it: what a module that is a unit gathers its matrices
  /// as, where products alone read them (Module::only_multiplied) beside bf16 activations
  /// (Module::compute_dtype of itself or of one that holds it). That saves it a third of what it
  /// moves, and changes no bit: they would be rounded where they are used. Unlike PyTorch's
  /// MixedPrecisionPolicy it makes no module compute in bf16: units that compute in f32 are
  /// gathered as f32, and the bits are DDP's. What is kept, reduced and saved is f32.
  DType param_dtype = DType::f32;
  /// f32, or bf16: what gradients are rounded to before they are summed over the ranks, and their
  /// sum once more; half of what they move. The sum is kept as f32. Unlike param_dtype it changes
  /// the bits.
  DType reduce_dtype = DType::f32;
  /// The units: by default encoder layers, embeddings and what else says that it is one. A module
  /// chosen here must be used through its operator(): that is where it is gathered. Whatever is
  /// inside no unit is gathered with the outermost module that holds it. Under a clipped norm the
  /// bits are those of other strategies whose arena was planned with the same units (nn::plan).
  nn::UnitPolicy units = {};
  /// Divides the summed gradients by the ranks, as PyTorch does: for a loss that is the mean of
  /// this rank's rows. Off, losses divide by the rows of the global batch.
  bool average = false;
  /// Overwrites what is let go with NaN, so that a use of it shows.
  bool poison = false;
};

/// Each rank keeps 16 bytes x parameters / n (data, gradients and two moments of its piece of each
/// unit), and for a while three units' whole parameters, two units' gradients and what lies outside
/// every unit. Per step it moves 3 (n - 1) / n x the parameters, less as ZeRO does. A unit of which
/// a parameter is frozen stays whole until backward enters the next one.
///
/// A module that is a unit gathers its parameters before its forward and before its backward; what
/// lies outside every unit is gathered when the outermost module that holds it is entered, and kept
/// until backward ends. To look at a parameter in between is an Error, and so it is to look at its
/// gradient once that is summed: only the optimizer sees it. Every call of the module is
/// collective: all ranks make the same ones (encode does so by itself, whatever texts each rank
/// has), with or without gradients. A module whose weights were not read yet (from_pretrained) is
/// sharded without ever being whole on a rank. After a forward or a hook of it that threw on all
/// ranks alike they may go on; after a backward that threw they are refused to. It stays sharded
/// when this object goes.
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
