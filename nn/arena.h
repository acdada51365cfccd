// Arenas: all parameters of a model end to end in one tensor, all gradients in another, a unit
// (an encoder layer, the embeddings, a loss head) at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

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
};

/// Elements [begin, end) of an arena that this process updates; begin is a multiple of kNormBlock.
struct LocalSlice {
  std::int64_t begin;
  std::int64_t end;
  Tensor data;  // (end - begin)
  Tensor grad;  // (end - begin)
};

/// How an arena is dealt out over processes: what an optimizer asks a strategy.
class Sharding {
 public:
  virtual ~Sharding() = default;
  /// What lies here, in the order of the arena.
  virtual std::vector<LocalSlice> local_slices() = 0;
  /// `blocks` has an entry per norm block of the arena; fills in those of the other processes.
  virtual void gather_norm_blocks(std::vector<double>& blocks) = 0;
};

class Arena {
 public:
  const Tensor& data() const { return data_; }  // (n), f32
  /// Gradients (n), f32, made on the first call; from then on every parameter writes there.
  const Tensor& grad();
  bool has_grad() const { return grad_.defined(); }
  std::span<const Unit> units() const { return units_; }
  std::int64_t numel() const { return data_.numel(); }

  /// Empty while the whole arena is here.
  const std::shared_ptr<Sharding>& sharding() const { return sharding_; }
  void set_sharding(std::shared_ptr<Sharding> sharding) { sharding_ = std::move(sharding); }
  /// One slice, the whole, unless sharded.
  std::vector<LocalSlice> local_slices();

 private:
  friend std::shared_ptr<Arena> pack(Module& module);
  Tensor data_;
  Tensor grad_;
  std::vector<Unit> units_;
  std::shared_ptr<Sharding> sharding_;
};

/// Lays all parameters below `module` into one arena, units in the module's own order and
/// parameters in the order of registration; parameters outside every unit form the unit of the
/// module that owns them. All must be f32 (or all f64) on one device. Idempotent: a module that is
/// packed already keeps its arena; one of its parents gets an arena of its own, into which the
/// parameters move.
std::shared_ptr<Arena> pack(Module& module);

}  // namespace ringlet::nn
