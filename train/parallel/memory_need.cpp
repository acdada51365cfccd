#include "ringlet/train/parallel/memory_need.h"

#include <algorithm>

#include "ringlet/comm/types.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::train {
namespace {

/// Elements of a module's arena, by their use.
struct Sizes {
  std::size_t all = 0;
  std::size_t shard = 0;         // the largest rank's
  std::size_t largest_unit = 0;  // at least its whole gradients exist at a time
  /// A unit's parameters (perhaps rounded to half their bytes) and gradients are whole in its
  /// backward. Units outside layers stay whole until then.
  std::size_t whole_under_fsdp = 0;
};

Sizes measure(const nn::Arena& arena, int ranks) {
  Sizes sizes;
  sizes.all = static_cast<std::size_t>(arena.numel());
  std::vector<std::size_t> shards(static_cast<std::size_t>(ranks));
  std::size_t outside = 0, busiest = 0;
  for (const nn::Unit& unit : arena.units()) {
    const auto numel = static_cast<std::size_t>(unit.end - unit.begin);
    const comm::Pieces pieces = comm::even_pieces(unit.end - unit.begin, ranks, nn::kNormBlock);
    for (std::size_t r = 0; r < shards.size(); ++r)
      shards[r] += static_cast<std::size_t>(pieces[r].count);
    if (!unit.layer) outside += numel;
    busiest = std::max(busiest, unit.layer ? numel + numel / 2 : numel);
    sizes.largest_unit = std::max(sizes.largest_unit, numel);
  }
  sizes.shard = *std::max_element(shards.begin(), shards.end());
  sizes.whole_under_fsdp = outside + busiest;
  return sizes;
}

}  // namespace

MemoryNeed memory_need(Strategy strategy, nn::Module& module, int ranks, int moments,
                       const nn::UnitPolicy& units) {
  const auto arena = nn::plan(module, units);
  if (arena->numel() == 0) return {};
  const Sizes n = measure(*arena, ranks);
  const std::size_t element = itemsize(arena->units().front().parameters.front().parameter.dtype());
  const auto state = static_cast<std::size_t>(moments);
  MemoryNeed need;
  switch (strategy) {
    case Strategy::none:
    case Strategy::dp:  // on the first device
    case Strategy::ddp:
      need = {n.all, n.all, state * n.all, 0};
      break;
    case Strategy::zero1:
      need = {n.all, n.all, state * n.shard, 0};
      break;
    case Strategy::zero2:
      need = {n.all, n.shard, state * n.shard, n.largest_unit};
      break;
    case Strategy::fsdp:
      need = {n.shard, n.shard, state * n.shard, n.whole_under_fsdp};
      break;
  }
  return {need.parameters * element, need.gradients * element, need.state * element,
          need.whole * element};
}

nn::Module& check_memory_limit(Strategy strategy, nn::Module& module, int ranks, int moments,
                               const nn::UnitPolicy& units) {
  const auto arena = nn::plan(module, units);
  if (arena->numel() == 0) return module;
  const Device device = arena->units().front().parameters.front().parameter.device();
  const std::size_t limit = memory_stats(device).limit;
  if (limit == 0) return module;
  const MemoryNeed need = memory_need(strategy, module, ranks, moments, units);
  if (need.total() <= limit) return module;
  fail_input("[", kStrategies(strategy), "] ", module.num_parameters(), " parameters need ",
             need.total(), " bytes on each rank (parameters ", need.parameters, ", gradients ",
             need.gradients, ", optimizer state ", need.state, ", whole units ", need.whole,
             ") and more for activations; the memory limit of ", device, " is ", limit);
}

}  // namespace ringlet::train
