#include "ringlet/train/parallel/sharded_data_parallel.h"

#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/parallel/unit_sharding.h"

namespace ringlet::train {

ShardedDataParallel::ShardedDataParallel(nn::Module& module, comm::Group group, Options options) {
  RINGLET_CHECK(options.stage == 1 || options.stage == 2, "[zero] stage ", options.stage,
                "; expected 1 or 2");
  const bool gradients = options.stage == 2;
  check_memory_limit(gradients ? Strategy::zero2 : Strategy::zero1, module, group.size());
  strategy_ = std::make_shared<UnitSharding>(
      gradients ? "zero2" : "zero1", module, std::move(group),
      UnitSharding::Switches{.gradients = gradients, .average = options.average});
  strategy_->attach();
}

ShardedDataParallel::~ShardedDataParallel() { strategy_->detach(); }

}  // namespace ringlet::train
