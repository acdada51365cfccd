#include "ringlet/train/parallel/memory_need.h"

#include <algorithm>

#include "ringlet/comm/types.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/nn/place.h"

namespace ringlet::train {

MemoryNeed memory_need(Strategy strategy, nn::Module& module, int ranks, int moments,
                       const nn::UnitPolicy& units) {
  const auto arena = nn::plan(module, units);
  if (arena->numel() == 0) return {};
  // In elements. The pieces of units differ by rank.
  std::vector<std::size_t> shards(static_cast<std::size_t>(ranks));
  std::size_t largest = 0, outside = 0, busiest = 0;
  for (const nn::Unit& unit : arena->units()) {
    const auto numel = static_cast<std::size_t>(unit.end - unit.begin);
    const comm::Pieces pieces = comm::even_pieces(unit.end - unit.begin, ranks, kNormBlock);
    for (std::size_t r = 0; r < shards.size(); ++r)
      shards[r] += static_cast<std::size_t>(pieces[r].count);
    // Units outside layers are whole until their backward. A layer's parameters, perhaps rounded to
    // half their bytes, and gradients are whole in its own.
    if (!unit.layer) outside += numel;
    busiest = std::max(busiest, unit.layer ? numel + numel / 2 : numel);
    largest = std::max(largest, numel);
  }
  const auto all = static_cast<std::size_t>(arena->numel());
  const std::size_t shard = *std::max_element(shards.begin(), shards.end());
  const StrategyTraits sharded = traits(strategy);
  MemoryNeed need;
  need.parameters = sharded.parameters ? shard : all;
  need.gradients = sharded.gradients ? shard : all;
  need.state = static_cast<std::size_t>(moments) * (sharded.state ? shard : all);
  if (sharded.gradients) need.whole = sharded.parameters ? outside + busiest : largest;
  const std::size_t element = itemsize(arena->units().front().parameters.front().parameter.dtype());
  for (std::size_t* bytes : {&need.parameters, &need.gradients, &need.state, &need.whole})
    *bytes *= element;
  return need;
}

nn::Module& check_memory_limit(Strategy strategy, nn::Module& module, int ranks, int moments,
                               const nn::UnitPolicy& units) {
  const Device device = module.device();
  const std::size_t limit = memory_stats(device).limit;
  if (limit == 0 || nn::on_several_devices(module)) return module;
  const MemoryNeed need = memory_need(strategy, module, ranks, moments, units);
  if (need.total() <= limit) return module;
  fail_input("[", kStrategies(strategy), "] ", module.num_parameters(), " parameters need ",
             need.total(), " bytes on each rank (parameters ", need.parameters, ", gradients ",
             need.gradients, ", optimizer state ", need.state, ", whole units ", need.whole,
             ") and more for activations; the memory limit of ", device, " is ", limit);
}

}  // namespace ringlet::train
