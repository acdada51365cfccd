// ZeRO-1 and ZeRO-2: every rank holds all parameters and updates its share of them.
#pragma once

#include "ringlet/train/parallel/strategy.h"

namespace ringlet::train {

struct ShardedDataParallelOptions {
  /// 1: the optimizer state is sharded. 2: the gradients, too; whole gradients exist for two units
  /// at a time. With more logical ranks than ranks this needs units in the order of the forward.
  int stage = 1;
  /// Divides the summed gradients by the number of ranks, as PyTorch does: for a loss that is the
  /// mean over this rank's rows. If false, losses divide by the rows of the global batch.
  bool average = false;
  int logical_ranks = 0;  // see RankStrategy
};

/// Used like DistributedDataParallel. Gradients are reduce-scattered unit by unit while backward
/// runs, and rank r's optimizer updates piece r of each unit. The optimizer's step ends with an
/// all-gather of the parameters. In total 2 (n - 1) / n x the parameters. If a table is most of its
/// unit and few of its rows have a gradient, all ranks send only those rows.
///
/// Edges are multiples of the norm block from the unit's start, so a small unit may leave some
/// ranks without elements. A unit's gradients are whole only from its first gradient until they are
/// reduced, if they are sharded. FullySharded is this with sharded parameters.
class ShardedDataParallel : public RankStrategy {
 public:
  using Options = ShardedDataParallelOptions;
  ShardedDataParallel(nn::Module& module, const comm::Group& group, Options options = {});
  /// The module has whole gradients again, without values.
  ~ShardedDataParallel() override;

  const comm::Group& replicas() const override { return replicas_; }
  std::vector<nn::LocalSlice> local_slices() override;
  void gather_norm_blocks(Tensor& blocks) override;
  void after_step(bool all) override;
  std::string why_no_graphs() const override;
  void assign(const nn::Parameter& parameter, const Tensor& value) override;
  Tensor whole_unit(const nn::Unit& unit) override;

  void end_logical_rank(bool counts) override;
  void backward_begins(std::span<autograd::VariableState* const> reached) override;
  void needs_grad_buffer(autograd::VariableState& leaf) override;
  void grad_ready(autograd::VariableState& leaf) override;
  void backward_ends() override;

 protected:
  /// `shard_size`: 0, all ranks, or a divisor of their number; else InputError. It cuts the ranks
  /// into blocks of so many, which are replicas of each other; r is then the place in a block.
  /// Gradients are summed within a block first, then over the blocks: by the tree over all ranks if
  /// the size is a power of two. A block's logical ranks must be a node of their tree.
  ShardedDataParallel(Strategy strategy, nn::Module& module, const comm::Group& group, bool average,
                      int logical_ranks, const nn::UnitPolicy& units = {}, int shard_size = 0);
  struct State {
    const nn::Unit* unit;
    comm::Pieces pieces;  // of the unit, by rank
    std::span<Item> items;
    Tensor shard;       // (my count) data that this rank updates
    Tensor shard_grad;  // (my count) their summed gradients
    // ---- of the backward that is running ----
    std::int64_t waiting = 0;  // parameters with an incomplete gradient
    bool launched = false;     // its gradients are in flight
    // ---- gradients before they are summed ----
    Tensor grad;           // (unit) this rank's
    comm::LogicalSum sum;  // of its earlier logical ranks
    std::vector<comm::Work> reducing;
    RowTables::Finish rows;                           // of the table, separate from the rest
    const nn::PlacedParameter* table = nullptr;       // with rows
    std::vector<std::shared_ptr<Storage>> elsewhere;  // of each parameter that is not whole
    std::int64_t numel() const { return unit->end - unit->begin; }
  };
  const comm::Piece& mine(const State& state) const {
    return state.pieces[static_cast<std::size_t>(shards_.rank())];
  }
  State& state_of(const nn::Unit& unit) {
    return states_[static_cast<std::size_t>(&unit - arena_->units().data())];
  }
  /// Called when all the unit's gradients of this backward are complete.
  virtual void unit_complete(State&) {}
  /// The Error of reading `parameter` where its unit is not whole; empty: some parameter of it.
  static std::string used_without_call(const nn::Unit& unit, const std::string& parameter = {});
  /// A parameter or its gradient without bytes: reading it is the Error of `bytes`.
  Tensor placeholder(const std::shared_ptr<Storage>& bytes, const nn::PlacedParameter& slot) const;

  comm::Group shards_;           // this rank's block
  comm::Group replicas_;         // the ranks with the same shards
  bool gradients_, parameters_;  // whether they are sharded
  std::vector<State> states_;    // one per unit

 private:
  using Bounds = std::pair<std::int64_t, std::int64_t>;  // elements of the arena
  void make_blocks(int shard_size);
  Tensor gradients(const State& state);
  void begin_sum(Item& item);
  void stash_sums(State& state);
  void leave_out_unwritten() override;
  void make_room();
  void reduce(State& state);
  void reduce_in_order();
  void add_missed(State& state);
  bool exchange_rows(State& state);
  void reduce_scatter(State& state, const Tensor& input, std::int64_t begin, std::int64_t end);
  void finish(State& state);
  void finish_rows(State& state);
  Bounds mine_of(const State& state, const nn::PlacedParameter& slot) const;
  Tensor in_shard(const Tensor& shard, const State& state, const nn::PlacedParameter& slot) const;

  int leaves_;          // logical ranks of this rank's block
  Tensor shard_grads_;  // of all units, where gradients are sharded
  std::vector<State*> in_flight_;
  std::shared_ptr<Storage> summed_;
  bool reducing_ = false;
  int ended_ = 0;         // logical ranks of this step and rank
  std::size_t rest_ = 0;  // units not yet visited by reduce_in_order()
};

}  // namespace ringlet::train
