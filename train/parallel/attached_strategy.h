// One of the strategies, chosen by name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

enum class Strategy { none, dp, ddp, zero1, zero2, fsdp };
inline constexpr const char* kStrategyNames = "none, dp, ddp, zero1, zero2 or fsdp";
const char* strategy_name(Strategy strategy);
/// By that name; anything else is InputError.
Strategy parse_strategy(std::string_view name);

/// Puts a strategy on a module while it lives (FSDP: as long as the module lives).
class AttachedStrategy {
 public:
  AttachedStrategy() = default;  // none
  /// `group` counts for ddp, zero1, zero2 and fsdp, `devices` for dp, whose module is a Loss.
  /// `dtype` is what its layers compute in, f32 or bf16.
  AttachedStrategy(Strategy strategy, nn::Module& module, comm::Group group,
                   const std::vector<Device>& devices, DType dtype = DType::f32);

  /// More than 0: backward reduces nothing (see NoSync).
  const std::shared_ptr<int>& paused() const { return paused_; }

 private:
  std::shared_ptr<void> strategy_;
  std::shared_ptr<int> paused_ = std::make_shared<int>(0);
};

}  // namespace ringlet::train
