// Arenas: all parameters of a model end to end in one tensor, all gradients in another, a unit
// (an encoder layer, the embeddings, a loss head) at a time.
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

/// Elements [begin, end) of the arena, its parameters without gaps; padding only after the last.
struct Unit {
  std::string name;  // path of its module
  std::int64_t begin;
  std::int64_t end;
  std::vector<Slot> slots;
  /// The module that is this unit; null: of `name`'s own parameters, which lie outside every unit.
  const Module* layer = nullptr;
};

/// Which modules are units; by default those that say so (Module::is_unit).
struct UnitPolicy {
  /// Modules of these classes (Module::kind) instead; a unit inside another is part of that.
  std::vector<std::string> classes = {};
  /// From the innermost out, every module below the outermost with at least this many elements of
  /// parameters that no unit below it has; 0: none. Beside classes, what they leave.
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

/// How an arena is dealt out over processes ("ranks"): what optimizers, encoders and savers ask a
/// strategy. It watches every parameter of the arena.
class Sharding : public autograd::LeafObserver {
 public:
  /// What lies here, in the order of the arena.
  virtual std::vector<LocalSlice> local_slices() = 0;
  /// `blocks`, f64 on the parameters' device, has an entry per norm block of the arena, 0 where
  /// another rank has it; fills in those.
  virtual void gather_norm_blocks(Tensor& blocks) = 0;
  /// The local slices were updated.
  virtual void after_step() {}

  /// Of this process; 0 makes folders and writes what is not dealt out.
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  /// The number of ranks whose gradients are reduced; 0 without a reduction.
  virtual int summed_ranks() const { return 0; }
  /// Whether the sum is divided by the number of ranks.
  virtual bool averages() const { return false; }
  virtual void barrier() {}
  /// Whether what lies here is the same on every rank: then each writes its part of it.
  virtual bool replicated() const { return false; }
  /// A few bytes of every rank, in rank order.
  virtual std::vector<std::string> all_gather_bytes(const std::string& mine) { return {mine}; }
  /// How many forwards each rank must run when this one has `n` to run: the most of all ranks where
  /// forwards are collective, else n itself.
  virtual std::int64_t forwards_together(std::int64_t n) { return n; }
  /// The parameters of a unit whole, (end - begin), from what each rank has of them. Collective
  /// unless they are here already.
  virtual Tensor whole_unit(const Unit& unit) = 0;
  /// Gives a parameter a value of its shape, which every rank has whole; another shape is Error.
  virtual void assign(const Parameter& parameter, const Tensor& value) {
    check_shape("assign", parameter.name().c_str(), value, parameter.shape());
    parameter.mutable_tensor().copy_(value);
  }
  /// The unit that holds `parameter`, and its slot there.
  virtual std::pair<const Unit*, const Slot*> find(const Parameter& parameter) const = 0;
};

/// What deals out the parameters of `module`, empty where nothing does.
std::shared_ptr<Sharding> sharding_of(const Module& module);

/// Whole parameters under every strategy, to be saved: every rank asks for the same ones in the
/// same order. Where they are sharded one unit at a time is whole.
class WholeParameters {
 public:
  explicit WholeParameters(const Module& module) : sharding_(sharding_of(module)) {}
  /// Valid until the next call.
  Tensor operator()(const Parameter& parameter);
  /// Whether this rank writes files.
  bool writes() const { return !sharding_ || sharding_->rank() == 0; }
  /// Every rank returns when all have come here.
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
  /// Gradients (n), f32, made on the first call; from then on every parameter writes there.
  const Tensor& grad();
  bool has_grad() const { return grad_.defined(); }
  /// Forgets the gradients; parameters get memory for them from elsewhere.
  void drop_grad();
  /// Forgets the data, which must have gone elsewhere; sizes and units stay.
  void drop_data() { data_ = Tensor(); }
  std::span<const Unit> units() const { return units_; }
  std::int64_t numel() const { return numel_; }

  /// Empty while the whole arena is here.
  const std::shared_ptr<Sharding>& sharding() const { return sharding_; }
  void set_sharding(std::shared_ptr<Sharding> sharding) { sharding_ = std::move(sharding); }
  /// One slice, the whole, unless sharded.
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

/// Lays all parameters below `module` into one arena, units in the module's own order and
/// parameters in the order of registration; parameters outside every unit form the unit of the
/// module that owns them. All must be f32 (or all f64) on one device. Idempotent: a module that is
/// packed already keeps its arena; one of its parents gets an arena of its own, into which the
/// parameters move.
std::shared_ptr<Arena> pack(Module& module);
/// The layout that pack would make, without memory for it: parameters stay where they are, for a
/// strategy to take them from there. A module that is packed already keeps its arena; Error if
/// `policy` asks for other units than it has.
std::shared_ptr<Arena> plan(Module& module, const UnitPolicy& policy = {});

}  // namespace ringlet::nn
