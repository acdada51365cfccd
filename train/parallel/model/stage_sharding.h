// The parameters of a pipeline: each unit of the arena belongs to the ranks of one stage.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "ringlet/comm/rows.h"
#include "ringlet/nn/pack.h"
#include "ringlet/nn/sharding.h"
#include "ringlet/train/parallel/model/mesh.h"

namespace ringlet::train {

/// Units, under their names in the whole module.
class StageUnits : public nn::Module {
 public:
  explicit StageUnits(DType compute_dtype) : compute_dtype_(compute_dtype) {}
  /// Before a strategy is attached.
  void add(const nn::Unit& unit);
  const char* kind() const override { return "Stage"; }
  DType compute_dtype() const override { return compute_dtype_; }

 private:
  DType compute_dtype_;
};

/// The units of this rank. A strategy over the axis `data` is attached to it as to any module.
class StageModule final : public StageUnits {
 public:
  explicit StageModule(DType of_layers)
      : StageUnits(DType::f32),
        layers_(register_module("", std::make_shared<StageUnits>(of_layers))) {}
  StageUnits& layers() { return *layers_; }

 private:
  std::shared_ptr<StageUnits> layers_;
};

/// Distributes a module over the axis `pipe`. This rank keeps the memory of its units alone; of
/// others a parameter has its shape. Optimizers, checkpoints and savers of the whole module work as
/// under any strategy. The module stays distributed when this object is destroyed.
class StageSharding final : public nn::Sharding,
                            public std::enable_shared_from_this<StageSharding> {
 public:
  /// A unit's rank on the axis `pipe`. `everywhere`: it comes after the layers, and other ranks
  /// keep a copy of it, which follows each step, for forwards without gradients.
  struct Place {
    int rank = 0;
    bool everywhere = false;
  };
  /// `place_of` each unit of nn::plan(module, units). The module has no strategy. `compute_dtype`
  /// is the dtype in which its layers compute. All ranks of `pipe` get the values of its rank 0.
  StageSharding(nn::Module& module, const nn::UnitPolicy& units,
                const std::function<Place(const nn::Unit&)>& place_of, const Mesh& mesh,
                DType compute_dtype);

  StageModule& stage() { return *stage_; }
  /// The policy for a strategy of stage(): the classes that it has.
  nn::UnitPolicy stage_units() const;
  /// Called when `strategy` is attached to stage(); keeps it as long as the module.
  void attach(std::shared_ptr<const void> strategy);
  /// Called on all ranks after a step's last backward: tells each rank which parameters of the
  /// others have gradients.
  void share_reached();

  std::vector<nn::LocalSlice> local_slices() override;
  void gather_norm_blocks(Tensor& blocks) override;
  void after_step(bool all) override;

  const comm::Group& replicas() const override { return data_->replicas(); }
  std::int64_t forwards_together(std::int64_t n) const override {
    return std::ranges::max(comm::all_gather_count(world(), n));
  }
  Tensor whole_unit(const nn::Unit& unit) override;
  void assign(const nn::Parameter& parameter, const Tensor& value) override;

  void backward_begins(std::span<autograd::VariableState* const> reached) override {
    data_->backward_begins(reached);
  }
  void needs_grad_buffer(autograd::VariableState& leaf) override { data_->needs_grad_buffer(leaf); }
  void only_rows(autograd::VariableState& leaf, const Tensor& rows) override {
    data_->only_rows(leaf, rows);
  }
  void grad_ready(autograd::VariableState& leaf) override { data_->grad_ready(leaf); }
  void backward_ends() override { data_->backward_ends(); }
  void backward_failed() noexcept override { data_->backward_failed(); }

 private:
  struct State {
    const nn::Unit* unit;
    Place place;
    const nn::Unit* mine = nullptr;  // the same in the stage's arena; null on other ranks
  };
  void broadcast() const;
  void keep_shapes(const State& state) const;
  const State& state_of(const nn::Unit& unit) const {
    return states_[static_cast<std::size_t>(&unit - states_.front().unit)];
  }
  void share(const State& state);
  void hook_stage();

  nn::Module& module_;
  comm::Group pipe_;
  std::vector<State> states_;  // one per unit
  std::shared_ptr<StageModule> stage_;
  nn::UnitPolicy units_;
  std::shared_ptr<nn::Sharding> data_;  // the stage's
  std::shared_ptr<const void> strategy_;
};

}  // namespace ringlet::train
