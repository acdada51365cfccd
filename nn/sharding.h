// The interface of a strategy for encoders, losses and savers, and whole parameters under each.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/autograd/leaf_observer.h"
#include "ringlet/nn/arena.h"
#include "ringlet/nn/batch_peers.h"
#include "ringlet/nn/slices.h"

namespace ringlet::nn {

/// A strategy over several ranks. It observes every parameter of its arena.
class Sharding : public autograd::LeafObserver, public ArenaShards {
 public:
  /// The rank of this process; rank 0 makes folders and writes what is not sharded.
  virtual int rank() const = 0;
  /// The number of ranks, over which gradients are summed.
  virtual int size() const = 0;
  /// Whether the sum is divided by the number of ranks.
  virtual bool averages() const = 0;
  virtual void barrier() = 0;
  /// The same ranks, for losses over rows of all of them.
  virtual std::shared_ptr<BatchPeers> peers() = 0;
  /// This rank's place among those that hold the same data, each of which writes a part of it.
  struct Replica {
    int index = 0;
    int count = 1;
  };
  virtual Replica replica() const { return {}; }
  /// Gathers a few bytes of every rank, in rank order.
  virtual std::vector<std::string> all_gather_bytes(const std::string& mine) = 0;
  /// The number of forwards that each rank must run if this one has `n`: the maximum over all ranks
  /// if forwards are collective, else n.
  virtual std::int64_t forwards_together(std::int64_t n) { return n; }
  /// The whole parameters of a unit, (end - begin), gathered from all ranks. Collective unless they
  /// are local already.
  virtual Tensor whole_unit(const Unit& unit) = 0;
  /// Sets a parameter to a value of its shape, which every rank passes whole; else Error.
  virtual void assign(const Parameter& parameter, const Tensor& value) {
    check_shape("assign", parameter.name().c_str(), value, parameter.shape());
    parameter.mutable_tensor().copy_(value);
  }
  /// The unit that holds `parameter`, and its place there.
  virtual std::pair<const Unit*, const PlacedParameter*> find(const Parameter& parameter) const = 0;
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
      : sharding_(sharding_of(module)), slice_ranks_(slice_ranks(module)) {}
  /// Valid until the next call.
  Tensor operator()(const Parameter& parameter) {
    const Tensor mine = unsharded(parameter);
    const auto& slice = parameter.state()->slice;
    return slice ? slice->gather(mine) : mine;
  }
  /// Whether this rank writes files.
  bool writes() const {
    return (!sharding_ || sharding_->rank() == 0) && (!slice_ranks_ || slice_ranks_->rank() == 0);
  }
  /// Returns when every rank has called it.
  void barrier() const {
    if (sharding_) sharding_->barrier();
    if (slice_ranks_) slice_ranks_->barrier();
  }

 private:
  Tensor unsharded(const Parameter& parameter) {
    if (!sharding_) return parameter.tensor();
    const auto [unit, placed] = sharding_->find(parameter);
    if (unit != unit_) {
      whole_ = Tensor();  // only one unit is whole at a time
      whole_ = sharding_->whole_unit(*unit);
      unit_ = unit;
    }
    return placed->in(whole_, unit->begin);
  }

  std::shared_ptr<Sharding> sharding_;
  std::shared_ptr<SliceRanks> slice_ranks_;
  const Unit* unit_ = nullptr;
  Tensor whole_;  // of that unit
};

}  // namespace ringlet::nn
