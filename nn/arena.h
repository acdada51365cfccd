// Arenas: all parameters of a model contiguous in one tensor, all gradients in another, unit by
// unit. A unit is an encoder layer, the embeddings or a loss head.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/nn/module.h"

namespace ringlet::nn {

struct PlacedParameter {
  std::string name;
  Parameter parameter;
  std::int64_t offset;  // elements from the start of the arena
  std::int64_t numel() const { return parameter.numel(); }
  /// Its part of a tensor that starts at element `begin` of the arena.
  Tensor in(const Tensor& values, std::int64_t begin = 0) const {
    return values.slice(offset - begin, offset - begin + numel()).view(parameter.shape());
  }
};

/// Elements [begin, end) of the arena. The parameters have no gaps; padding follows the last. A
/// unit starts at a multiple of kNormBlock (core/ops/optimizer.h): no shard's edge splits a block.
struct Unit {
  std::string name;  // path of its module
  std::int64_t begin;
  std::int64_t end;
  std::vector<PlacedParameter> parameters;
  /// The module that is this unit; null: direct parameters of `name`, outside every unit's module.
  const Module* layer = nullptr;
};

/// Elements [begin, end) of an arena that this process updates; begin is a multiple of kNormBlock.
struct LocalSlice {
  std::int64_t begin;
  std::int64_t end;
  Tensor data;  // (end - begin)
  Tensor grad;  // (end - begin)
};

class Sharding;

class Arena {
 public:
  /// Gives each parameter its offset; they stay in place until take_data.
  explicit Arena(std::vector<Unit> units);
  /// Moves all parameters into one tensor, or into one for each run of units on one device. Error
  /// for a unit on several devices.
  void take_data();
  bool is_packed() const { return data_.defined() || !parts_.empty(); }
  const Tensor& data() const { return data_; }  // (n), f32; undefined on several devices
  /// Gradients (n), f32, allocated by the first call; then every parameter's gradient is written
  /// there.
  const Tensor& grad();
  /// Releases the gradients; later gradients are in other memory.
  void drop_grad();
  /// Releases the data, which must have moved elsewhere; sizes and units stay.
  void drop_data() { data_ = Tensor(); }
  std::span<const Unit> units() const { return units_; }
  /// The parameters of all units, each a PlacedParameter.
  std::vector<std::reference_wrapper<const PlacedParameter>> parameters() const;
  /// The unit that holds `parameter`, and its place there. Error if no unit does.
  std::pair<const Unit*, const PlacedParameter*> find(const Parameter& parameter) const;
  std::int64_t numel() const { return numel_; }

  /// The strategy over several ranks; null if there is none.
  const std::shared_ptr<Sharding>& sharding() const { return sharding_; }
  void set_sharding(std::shared_ptr<Sharding> sharding) { sharding_ = std::move(sharding); }
  /// This rank's slices, in the order of the arena: without a strategy one for each device.
  std::vector<LocalSlice> local_slices();

 private:
  void take_part(std::span<const Unit> units, std::int64_t end);  // on one device

  std::vector<Unit> units_;
  std::int64_t numel_ = 0;
  Tensor data_;
  Tensor grad_;
  std::vector<LocalSlice> parts_;  // on several devices
  std::shared_ptr<Sharding> sharding_;
};

}  // namespace ringlet::nn
