// A strategy that is chosen by name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/nn/module.h"
#include "ringlet/nn/pack.h"
#include "ringlet/train/parallel/strategy_name.h"

namespace ringlet::train {

class DataParallel;

/// Options of some strategies, by PyTorch's names; see the options of each strategy.
struct StrategyOptions {
  double bucket_cap_mb = 25;          // ddp: MiB; its first bucket is 1 MiB at most
  bool reshard_after_forward = true;  // fsdp
  bool prefetch = true;               // fsdp
  nn::UnitPolicy units = {};          // fsdp
  int shard_size = 0;                 // fsdp
  bool average = false;               // all: gradients are divided by the ranks
  int logical_ranks = 0;              // all but dp: see RankStrategy
  bool timed = false;                 // dp: whether seconds_exchanging() counts
  std::function<void(const std::string&)> on_note = {};  // dp; others use the group's
};

/// Attaches a strategy to a module while it lives (FSDP: as long as the module lives).
class AttachedStrategy {
 public:
  AttachedStrategy() = default;  // none
  /// `group` is used by ddp, zero1, zero2 and fsdp, `devices` by dp. Under dp the module must be a
  /// Loss; for other modules DataParallel itself has sum(). `dtype` is the dtype in which its
  /// layers compute, f32 or bf16.
  AttachedStrategy(Strategy strategy, nn::Module& module, const comm::Group& group,
                   const std::vector<Device>& devices, DType dtype = DType::f32,
                   const StrategyOptions& options = {});

  /// Under dp with `timed`: seconds spent so far on adding gradients and sending parameters.
  /// Otherwise 0 (see comm::GroupStats).
  double seconds_exchanging() const;

 private:
  std::shared_ptr<void> strategy_;
  std::shared_ptr<DataParallel> replicas_;  // dp
};

}  // namespace ringlet::train
