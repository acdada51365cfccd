// Gradient accumulation under a strategy.
#pragma once

#include "ringlet/nn/module.h"

namespace ringlet::train {

/// While it lives, gradients add up on each rank separately and nothing is sent. The next backward
/// without it reduces the accumulated gradients; until then an optimizer refuses to step. Without a
/// strategy it does nothing.
class NoSync {
 public:
  /// `module` is the one that a strategy is attached to.
  explicit NoSync(nn::Module& module) : module_(module) { module.count_no_sync(1); }
  ~NoSync() { module_.count_no_sync(-1); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  nn::Module& module_;
};

}  // namespace ringlet::train
