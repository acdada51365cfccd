// The memory that a strategy keeps, compared with a device's limit before it is allocated.
#pragma once

#include <cstddef>

#include "ringlet/nn/pack.h"
#include "ringlet/train/parallel/strategy_name.h"

namespace ringlet::train {

/// Bytes that the rank with most of them needs at least, without activations.
struct MemoryNeed {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t state = 0;  // the optimizer's
  std::size_t whole = 0;  // parameters and gradients of sharded units while they are whole
  std::size_t total() const { return parameters + gradients + state + whole; }
};

/// `moments` is the number of moments that the optimizer keeps for each element: 2 for AdamW, 0 if
/// it is not known yet; `units` are those of FullyShardedOptions.
MemoryNeed memory_need(Strategy strategy, nn::Module& module, int ranks, int moments,
                       const nn::UnitPolicy& units = {});

/// Returns the module. InputError, with the bytes needed, if they exceed the limit of its device
/// (set_memory_limit). On several devices only allocations are checked.
nn::Module& check_memory_limit(Strategy strategy, nn::Module& module, int ranks, int moments = 0,
                               const nn::UnitPolicy& units = {});

}  // namespace ringlet::train
