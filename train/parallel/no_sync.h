// Gradient accumulation under a strategy.
#pragma once

#include "ringlet/nn/sharding.h"

namespace ringlet::train {

/// While it lives, gradients add up on each rank separately and nothing is sent. The next backward
/// without it reduces the accumulated gradients; until then an optimizer refuses to step. Without a
/// strategy it does nothing.
class NoSync {
 public:
  /// `module` is the one that a strategy is attached to. Error for another one with its parameters,
  /// for example a loss's model: the strategy would not pause.
  explicit NoSync(nn::Module& module) : NoSync(module, AnyModule{}) {
    const auto& arena = module.arena();
    if (arena && arena->sharding()) return;
    for (const nn::Parameter& parameter : module.parameters())
      RINGLET_CHECK(!std::dynamic_pointer_cast<nn::Sharding>(parameter.state()->observer.lock()),
                    "[no_sync] the strategy of '", parameter.name(),
                    "' is attached to another module than this one: pass that module");
  }
  /// For a task: strategies that are attached to parts of its module reduce each backward.
  struct AnyModule {};
  NoSync(nn::Module& module, AnyModule) : module_(module) { module.count_no_sync(1); }
  ~NoSync() { module_.count_no_sync(-1); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  nn::Module& module_;
};

/// Ends a logical rank within a step, after its last backward, which ran under NoSync. Its
/// gradients wait for those of the next one, or are dropped: `counts` is BatchShare's. `module` is
/// the strategy's.
inline void end_logical_rank(const nn::Module& module, bool counts = true) {
  const auto sharding = nn::sharding_of(module);
  RINGLET_CHECK(sharding, "[logical ranks] a rank has several in a step: attach a strategy, for ",
                "one rank DistributedDataParallel, with the loader's logical_ranks");
  sharding->end_logical_rank(counts);
}

}  // namespace ringlet::train
