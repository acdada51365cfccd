// The strategies by name, and what each shards.
#pragma once

#include "ringlet/core/base/names.h"

namespace ringlet::train {

enum class Strategy { none, dp, ddp, zero1, zero2, fsdp };
inline constexpr EnumNames<Strategy, 6> kStrategies{
    "strategy", {"none", "dp", "ddp", "zero1", "zero2", "fsdp"}};

/// The strategies of several ranks.
inline constexpr std::array kStrategiesOfRanks{Strategy::ddp, Strategy::zero1, Strategy::zero2,
                                               Strategy::fsdp};

struct StrategyTraits {
  bool ranks = false;  // works on several ranks
  /// Whether a rank keeps a shard, not all. Forwards that gather parameters are collective.
  bool state = false, gradients = false, parameters = false;
};
/// In the order of Strategy.
inline constexpr std::array<StrategyTraits, 6> kStrategyTraits{
    {{}, {}, {true}, {true, true}, {true, true, true}, {true, true, true, true}}};
constexpr const StrategyTraits& traits(Strategy strategy) {
  return kStrategyTraits[static_cast<std::size_t>(strategy)];
}

}  // namespace ringlet::train
