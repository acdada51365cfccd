// The interface of a strategy for encoders, losses and savers, and whole parameters under each.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ringlet/nn/arena.h"
#include "ringlet/nn/slices.h"

namespace ringlet::nn {

/// A strategy over several ranks. It observes every parameter of its arena.
class Sharding : public autograd::LeafObserver {
 public:
  /// `world`: all ranks that hold the module or parts of it; its rank 0 makes folders and writes
  /// what is not sharded. `group`: of these, the ranks with different rows, over which gradients
  /// are summed.
  Sharding(Arena& arena, comm::Group world, comm::Group group)
      : arena_(&arena), world_(std::move(world)), group_(std::move(group)) {}
  const Arena& arena() const { return *arena_; }
  const comm::Group& world() const { return world_; }
  const comm::Group& group() const { return group_; }
  /// Gradients are the sum over so many logical ranks. Each rank has a contiguous block of them.
  int logical_ranks() const { return logical_ranks_ > 0 ? logical_ranks_ : group_.size(); }
  /// Called under no_sync, after the last backward of each logical rank of this rank but the last.
  /// The next one's gradients begin with zero. Without `counts` its own are dropped.
  virtual void end_logical_rank(bool /*counts*/) {}
  /// Whether the sum is divided by the number of logical ranks.
  bool averages() const { return average_; }
  /// From now on a backward may leave out trainable parameters.
  void allow_unused() { allows_unused_ = true; }
  /// The ranks that hold the same data as this one. Each writes a part of it.
  virtual const comm::Group& replicas() const = 0;
  /// The number of forwards that each rank must run if this one has `n`: the maximum over all ranks
  /// if forwards are collective, else n.
  virtual std::int64_t forwards_together(std::int64_t n) const { return n; }
  /// The whole parameters of a unit, (end - begin), gathered from all ranks. Collective unless they
  /// are local already.
  virtual Tensor whole_unit(const Unit& unit) = 0;
  /// Sets a parameter to a value of its shape, which every rank passes whole; else Error.
  virtual void assign(const Parameter& parameter, const Tensor& value) {
    check_shape("assign", parameter.name().c_str(), value, parameter.shape());
    parameter.mutable_tensor().copy_(value);
  }

  // ---- for optimizers ----
  /// This rank's slices, in the order of the arena.
  virtual std::vector<LocalSlice> local_slices() = 0;
  /// `blocks`, f64 on the parameters' device, has an entry per norm block of the arena, 0 for the
  /// blocks of other ranks. Fills in those.
  virtual void gather_norm_blocks(Tensor& /*blocks*/) {}
  /// Called after the local slices were updated; `all`: also those without a gradient.
  virtual void after_step(bool /*all*/ = false) {}

 protected:
  Arena* arena_;
  comm::Group world_, group_;
  int logical_ranks_ = 0;  // 0: the group's
  bool average_ = false, allows_unused_ = false;
};

/// The strategy that distributes the parameters of `module`; empty if there is none.
inline std::shared_ptr<Sharding> sharding_of(const Module& module) {
  const std::vector<Parameter> parameters = module.parameters();
  if (parameters.empty()) return nullptr;
  return std::dynamic_pointer_cast<Sharding>(parameters.front().state()->observer.lock());
}

/// Whole parameters under every strategy, for saving. Every rank requests the same ones in the same
/// order. If they are sharded, only one unit is whole at a time.
class WholeParameters {
 public:
  explicit WholeParameters(const Module& module)
      : sharding_(sharding_of(module)), slices_(slice_group(module)) {}
  /// Valid until the next call.
  Tensor operator()(const Parameter& parameter) {
    const Tensor mine = unsharded(parameter);
    const auto& slice = parameter.state()->slice;
    return slice ? slice->gather(mine) : mine;
  }
  /// Whether this rank writes files.
  bool writes() const {
    return (!sharding_ || sharding_->world().rank() == 0) && slices_.rank() == 0;
  }
  /// Returns when every rank has called it.
  void barrier() const {
    if (sharding_) sharding_->world().barrier();
    slices_.barrier();
  }

 private:
  Tensor unsharded(const Parameter& parameter) {
    if (!sharding_) return parameter.tensor();
    const auto [unit, placed] = sharding_->arena().find(parameter);
    if (unit != unit_) {
      whole_ = Tensor();  // only one unit is whole at a time
      whole_ = sharding_->whole_unit(*unit);
      unit_ = unit;
    }
    return placed->in(whole_, unit->begin);
  }

  std::shared_ptr<Sharding> sharding_;
  comm::Group slices_;
  const Unit* unit_ = nullptr;
  Tensor whole_;  // of that unit
};

}  // namespace ringlet::nn
