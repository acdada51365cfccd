#include "ringlet/train/parallel/strategy_name.h"

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"

namespace ringlet::train {

const char* strategy_name(Strategy strategy) {
  constexpr const char* kNames[] = {"none", "dp", "ddp", "zero1", "zero2", "fsdp"};
  return kNames[static_cast<int>(strategy)];
}

Strategy parse_strategy(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Strategy::fsdp); ++i)
    if (const auto strategy = static_cast<Strategy>(i); name == strategy_name(strategy))
      return strategy;
  fail_input("unknown strategy ", quote(name), "; expected ", kStrategyNames);
}

}  // namespace ringlet::train
