// The common part of ZeRO's three stages: every unit of the arena is divided among the ranks.
#pragma once

#include <optional>

#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

/// Rank r updates piece r of each unit. Edges are multiples of the norm block from the unit's
/// start, so a small unit may leave some ranks without elements. All stages shard the optimizer
/// state. `gradients` shards the gradients: a unit's are whole only from its first gradient until
/// they are reduced. `parameters` shards the parameters, too (see FullySharded). If a table is most
/// of its unit and few of its rows have a gradient, all ranks send only those rows.
class UnitSharding : public RankStrategy {
 public:
  struct Switches {
    bool gradients = false;
    bool parameters = false;
    bool average = false;       // see RankStrategy
    nn::UnitPolicy units = {};  // for sharded parameters
    DType reduce_dtype = DType::f32;
  };
  UnitSharding(const char* name, nn::Module& module, comm::Group group, Switches switches);

  std::vector<nn::LocalSlice> local_slices() override;
  void gather_norm_blocks(Tensor& blocks) override;
  void after_step() override;
  void assign(const nn::Parameter& parameter, const Tensor& value) override;
  Tensor whole_unit(const nn::Unit& unit) override;

  void backward_begins(std::span<autograd::VariableState* const> reached) override;
  void needs_grad_buffer(autograd::VariableState& leaf) override;
  void grad_ready(autograd::VariableState& leaf) override;
  void backward_ends() override;

 protected:
  struct State {
    const nn::Unit* unit;
    comm::Pieces pieces;  // of the unit, by rank
    std::size_t first_item, last_item;
    Tensor shard;       // (my count) data that this rank updates
    Tensor shard_grad;  // (my count) their summed gradients
    // ---- of the backward that is running ----
    std::int64_t waiting = 0;  // parameters with an incomplete gradient
    bool launched = false;     // its gradients are in flight
    // ---- gradients before they are summed ----
    Tensor grad;     // (unit) this rank's
    Tensor rounded;  // (my count) their sum, if it is sent in another dtype
    std::vector<comm::Work> reducing;
    std::optional<RowExchange> rows;              // of the table, separate from the rest
    std::int64_t table_begin = 0, table_end = 0;  // elements of the unit
    // ---- sums of earlier backwards, to be added to ----
    bool holds_sum = false;
    Tensor earlier;                      // (my count) set aside while shard_grad is written
    std::shared_ptr<Storage> elsewhere;  // of parameters that are not whole
    std::int64_t numel() const { return unit->end - unit->begin; }
  };
  const comm::Piece& mine(const State& state) const {
    return state.pieces[static_cast<std::size_t>(rank())];
  }
  State& state_of(const nn::Unit& unit) {
    return states_[static_cast<std::size_t>(&unit - arena_->units().data())];
  }
  std::span<Item> items_of(const State& state) {
    return std::span(items_).subspan(state.first_item, state.last_item - state.first_item);
  }
  /// Called when all the unit's gradients of this backward are complete.
  virtual void unit_complete(State&) {}
  static std::string used_without_call(const nn::Unit& unit);
  /// A parameter or its gradient without bytes: reading it is the Error of `bytes`.
  Tensor placeholder(const std::shared_ptr<Storage>& bytes, const nn::PlacedParameter& slot) const;
  /// Gathers the unit's bytes from every rank's piece into `whole` (unit).
  comm::Work gather(const State& state, Tensor whole, const Tensor& piece) const;

  Switches switches_;
  std::vector<State> states_;  // one per unit

 private:
  void start_anew(Item& item);
  void set_sum_aside(State& state);
  void leave_out_unwritten();
  void make_room();
  void reduce(State& state);
  bool exchange_rows(State& state);
  void reduce_scatter(State& state, const Tensor& input, std::int64_t begin, std::int64_t end);
  void finish(State& state);
  void finish_rows(State& state);
  template <class Visit>
  void for_spans(const State& state, const Visit& visit) const;

  Tensor shard_grads_;  // of all units, where gradients are sharded
  std::vector<State*> in_flight_;
  std::shared_ptr<Storage> summed_;
  bool reducing_ = false;
};

}  // namespace ringlet::train
