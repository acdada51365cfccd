// Arenas: all parameters of a model contiguous in one tensor, all gradients in another, unit by
// unit. A unit is an encoder layer, the embeddings or a loss head.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringlet/autograd/leaf_observer.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// Units start at multiples of the block of the global norm, so that a shard's edge never splits
/// a block.
using ringlet::kNormBlock;

struct Slot {
  std::string name;
  Parameter parameter;
  std::int64_t offset;  // elements from the start of the arena
  std::int64_t numel() const { return parameter.numel(); }
};

/// Elements [begin, end) of the arena. The parameters have no gaps; padding follows the last.
struct Unit {
  std::string name;  // path of its module
  std::int64_t begin;
  std::int64_t end;
  std::vector<Slot> slots;
  /// The module that is this unit; null: direct parameters of `name`, outside every unit's module.
  const Module* layer = nullptr;
};

/// Selects the modules that are units; by default those with Module::is_unit.
struct UnitPolicy {
  /// Instead, modules of these classes (Module::kind); a unit inside another is part of that.
  std::vector<std::string> classes = {};
  /// Also, from the innermost outwards, every module below the root with at least this many
  /// elements in parameters outside its inner units; 0: none. With classes, applies to the
  /// remaining parameters.
  std::int64_t min_numel = 0;

  bool is_default() const { return classes.empty() && min_numel == 0; }
};

/// Elements [begin, end) of an arena that this process updates; begin is a multiple of kNormBlock.
struct LocalSlice {
  std::int64_t begin;
  std::int64_t end;
  Tensor data;  // (end - begin)
  Tensor grad;  // (end - begin)
};

/// The distribution of an arena over processes ("ranks"): the interface of a strategy for
/// optimizers, encoders and savers. It observes every parameter of the arena.
class Sharding : public autograd::LeafObserver {
 public:
  /// This rank's slices, in the order of the arena.
  virtual std::vector<LocalSlice> local_slices() = 0;
  /// `blocks`, f64 on the parameters' device, has an entry per norm block of the arena, 0 for the
  /// blocks of other ranks. Fills in those.
  virtual void gather_norm_blocks(Tensor& blocks) = 0;
  /// Called after the local slices were updated.
  virtual void after_step() {}

  /// The rank of this process; rank 0 makes folders and writes what is not sharded.
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  /// The number of ranks in the sum of gradients; 0 without a reduction.
  virtual int summed_ranks() const { return 0; }
  /// Whether the sum is divided by the number of ranks.
  virtual bool averages() const { return false; }
  virtual void barrier() {}
  /// Whether every rank holds the same data; each then writes its part of it.
  virtual bool replicated() const { return false; }
  /// Gathers a few bytes of every rank, in rank order.
  virtual std::vector<std::string> all_gather_bytes(const std::string& mine) { return {mine}; }
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
  /// The unit that holds `parameter`, and its slot there.
  virtual std::pair<const Unit*, const Slot*> find(const Parameter& parameter) const = 0;
};

/// The strategy that distributes the parameters of `module`; empty if there is none.
std::shared_ptr<Sharding> sharding_of(const Module& module);

/// Whole parameters under every strategy, for saving. Every rank requests the same ones in the same
/// order. If they are sharded, only one unit is whole at a time.
class WholeParameters {
 public:
  explicit WholeParameters(const Module& module) : sharding_(sharding_of(module)) {}
  /// Valid until the next call.
  Tensor operator()(const Parameter& parameter);
  /// Whether this rank writes files.
  bool writes() const { return !sharding_ || sharding_->rank() == 0; }
  /// Returns when every rank has called it.
  void barrier() const {
    if (sharding_) sharding_->barrier();
  }

 private:
  std::shared_ptr<Sharding> sharding_;
  const Unit* unit_ = nullptr;
  Tensor whole_;  // of that unit
};

class Arena {
 public:
  const Tensor& data() const { return data_; }  // (n), f32
  /// Gradients (n), f32, allocated by the first call; then every parameter's gradient is written
  /// there.
  const Tensor& grad();
  bool has_grad() const { return grad_.defined(); }
  /// Releases the gradients; later gradients are in other memory.
  void drop_grad();
  /// Releases the data, which must have moved elsewhere; sizes and units stay.
  void drop_data() { data_ = Tensor(); }
  std::span<const Unit> units() const { return units_; }
  std::int64_t numel() const { return numel_; }

  /// Empty if the whole arena is local.
  const std::shared_ptr<Sharding>& sharding() const { return sharding_; }
  void set_sharding(std::shared_ptr<Sharding> sharding) { sharding_ = std::move(sharding); }
  /// One slice, the whole arena, unless it is sharded.
  std::vector<LocalSlice> local_slices();

 private:
  friend std::shared_ptr<Arena> pack(Module& module);
  friend std::shared_ptr<Arena> plan(Module& module, const UnitPolicy& policy);
  Tensor data_;
  Tensor grad_;
  std::int64_t numel_ = 0;
  std::vector<Unit> units_;
  std::shared_ptr<Sharding> sharding_;
};

/// Moves all parameters below `module` into one arena: units in the module's order, parameters in
/// the order of registration. Parameters outside every unit form the unit of the module that owns
/// them. All must be f32 (or all f64) on one device. Idempotent: a packed module keeps its arena.
/// Packing one of its parents makes another arena, into which the parameters move.
std::shared_ptr<Arena> pack(Module& module);
/// The layout that pack would make, without memory for it: parameters stay in place until a
/// strategy moves them. A packed module keeps its arena; Error if `policy` requests other units
/// than it has.
std::shared_ptr<Arena> plan(Module& module, const UnitPolicy& policy = {});

}  // namespace ringlet::nn
