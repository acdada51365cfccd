// Arenas: all parameters of a model end to end in one tensor, all gradients in another, a unit
// (an encoder layer, the embeddings, a loss head) at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// Units start at multiples of this many elements, the block of the global norm, so that a
/// shard's edge never splits a block.
inline constexpr std::int64_t kNormBlock = 4096;

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

class Arena {
 public:
  const Tensor& data() const { return data_; }  // (n), f32
  /// Gradients (n), f32, made on the first call; from then on every parameter writes there.
  const Tensor& grad();
  bool has_grad() const { return grad_.defined(); }
  std::span<const Unit> units() const { return units_; }
  std::int64_t numel() const { return data_.numel(); }

 private:
  friend std::shared_ptr<Arena> pack(Module& module);
  Tensor data_;
  Tensor grad_;
  std::vector<Unit> units_;
};

/// Lays all parameters below `module` into one arena, units in the module's own order and
/// parameters in the order of registration; parameters outside every unit form the unit of the
/// module that owns them. All must be f32 (or all f64) on one device. Idempotent: a module that is
/// packed already keeps its arena; one of its parents gets an arena of its own, into which the
/// parameters move.
std::shared_ptr<Arena> pack(Module& module);

/// The tensors seen as one with their outermost dimensions added up, where they lie end to end in
/// one storage; undefined otherwise.
Tensor adjacent(std::span<const Tensor> tensors);

}  // namespace ringlet::nn
