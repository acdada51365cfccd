#include "ringlet/train/parallel/sharded_data_parallel.h"

namespace ringlet::train {
namespace {

Strategy strategy_of(int stage) {
  RINGLET_CHECK(stage == 1 || stage == 2, "[zero] stage ", stage, "; expected 1 or 2");
  return stage == 1 ? Strategy::zero1 : Strategy::zero2;
}

}  // namespace

ShardedDataParallel::ShardedDataParallel(nn::Module& module, const comm::Group& group,
                                         Options options)
    : UnitSharding(strategy_of(options.stage), module, group, options.average,
                   options.logical_ranks) {}

}  // namespace ringlet::train
