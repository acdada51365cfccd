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
  /// f32, or bf16 for layers that compute in it (Transformer::set_compute_dtype): what a module
  /// that is a unit gathers its matrices as, where products alone read them
  /// (Module::only_multiplied). That saves it a third of what it moves, and changes no bit: they
  /// would be rounded where they are used. What is kept, reduced and saved is f32.
  DType param_dtype = DType::f32;
  /// Overwrites what is let go with NaN, so that a use of it shows.
  bool poison = false;
};

/// Each rank keeps 16 bytes x parameters / n (data, gradients and two moments of its piece of each
/// unit), and for a while three units' whole parameters, two units' gradients and what lies outside
/// every unit. Per step it moves 3 (n - 1) / n x the parameters.
///
/// A module that is a unit gathers its parameters before its forward and before its backward; what
/// lies outside every unit is gathered when the outermost module that holds it is entered, and kept
/// until backward ends. In between a parameter reads as NaN, and so does its gradient once it is
/// summed: only the optimizer sees it. Every call of the module is collective: all ranks make the
/// same ones (encode does so by itself, whatever texts each rank has), with or without gradients.
/// A module whose weights were not read yet (from_pretrained) is sharded without ever being whole
/// on a rank. After a forward that threw on all ranks alike they may go on; after a backward that
/// threw they are refused to. It stays sharded when this object goes.
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
