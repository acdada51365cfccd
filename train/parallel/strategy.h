// The common part of all strategies over several ranks.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/comm/logical_sum.h"
#include "ringlet/nn/pack.h"
#include "ringlet/nn/sharding.h"
#include "ringlet/train/parallel/gradient_sum.h"
#include "ringlet/train/parallel/no_sync.h"
#include "ringlet/train/parallel/row_exchange.h"
#include "ringlet/train/parallel/strategy_name.h"

namespace ringlet::train {

class ReachCheck;

/// Watches a packed module's parameters and modules. Created on all ranks together. A module that
/// exceeds the memory limit is refused. Names, shapes and dtypes must be equal on all ranks, or the
/// first difference is named; then all ranks get the values of rank 0. Every training forward
/// outside no_sync starts with rank 0's buffers. The module must outlive it. Attached from
/// construction to destruction; under fsdp as long as the module lives.
class RankStrategy : public nn::Sharding {
 public:
  /// `average`: the summed gradients are divided by the number of logical ranks. `logical_ranks`:
  /// 0 for the group's ranks, or at least as many. Then gradients are added by a tree over them
  /// (core/ops/sum_tree.h): their bits do not depend on the number of ranks.
  /// Under fsdp the arena has no memory: the strategy reads rank 0's parameters where they are.
  RankStrategy(Strategy strategy, nn::Module& module, const comm::Group& group, bool average,
               int logical_ranks, const nn::UnitPolicy& units = {});
  ~RankStrategy() override;
  RankStrategy(const RankStrategy&) = delete;
  RankStrategy& operator=(const RankStrategy&) = delete;

  /// Gradient accumulation: all backwards of a step but the last run under it. Gradients are whole
  /// on each rank until the next backward without it, under every strategy.
  [[nodiscard]] NoSync no_sync() const { return NoSync(module_); }

  void only_rows(autograd::VariableState& leaf, const Tensor& rows) override {
    tables_.note(leaf, rows);
  }
  void backward_ends() override;
  void backward_failed() noexcept override;

  // ---- for steps that are captured as graphs ----
  /// Why none can be captured; empty if one can. Its collectives then depend only on which
  /// parameters it reaches.
  virtual std::string why_no_graphs() const { return "the strategy decides on the host"; }
  /// A replay has taken the place of a backward: the gradients that parameters have are sums.
  void gradients_are_sums();

  Tensor whole_unit(const nn::Unit& unit) override {
    return arena_->data().slice(unit.begin, unit.end);
  }

 protected:
  /// A parameter, and its gradient on this rank.
  struct Item : GradientSum {
    std::size_t unit;
    const nn::PlacedParameter* slot;
    bool reached = false;  // by the backward that is running
    bool pending = false;  // holds a gradient that was not reduced yet
    bool carried = false;  // so does the sum of earlier logical ranks
  };
  Item& item_of(const autograd::VariableState& leaf) { return items_[index_.at(&leaf)]; }
  /// Throws after a backward that did not complete on this rank: its gradients are incomplete.
  void check_usable() const;
  /// Records which gradients exist and which the backward reaches. True if it is to reduce.
  bool begin(std::span<autograd::VariableState* const> reached);
  /// Adds the gradients of a logical rank, which begin at element `begin`, to those of earlier
  /// ones: missing ones are zeros. The next ones begin with zero.
  void add_to_sum(std::span<Item> items, const Tensor& gradients, comm::LogicalSum& of_earlier,
                  std::int64_t begin);
  /// The gradients since then are none, as if their backwards had not run.
  void drop_gradients();
  /// Parameters in the graph that got no gradient have what they had before.
  virtual void leave_out_unwritten() = 0;
  /// Why its collectives cannot be captured, whatever they are; empty if they can.
  std::string why_not_captured() const;
  /// Divides a sum over the ranks, in place, if gradients are averaged.
  void take_average(Tensor sum) const {
    if (average_) axpby(sum, 1.0 / logical_ranks(), sum, 0);
  }
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  virtual nn::ModuleHooks hooks(nn::Module& module);
  /// The module's arena shares `self` until this is destroyed.
  void attach(std::shared_ptr<RankStrategy> self);

  std::string_view name_;
  nn::Module& module_;
  std::weak_ptr<nn::Arena> alive_;  // expires with the module
  std::unique_ptr<ReachCheck> reach_;
  RowTables tables_;
  std::vector<Item> items_;  // in the arena's order

 private:
  void check_logical_ranks() const;
  void broadcast(bool data);
  nn::ModuleHooks outermost(nn::ModuleHooks hooks);
  void share_buffers() const;

  std::unordered_map<const autograd::VariableState*, std::size_t> index_;
  std::shared_ptr<RankStrategy> self_;  // owns nothing; null under fsdp, which the arena owns
  bool running_ = false;                // a backward is
  bool broken_ = false;
};

}  // namespace ringlet::train
