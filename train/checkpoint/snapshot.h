// A training's state in memory, with which ranks go on after the end of a peer, or beside a new
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train {

/// The parts of a step after its update, in this order: done again from here if not completed. From
/// `trained` on, after the last step, the module may have the best weights or the average.
enum class StepEnding : std::uint8_t { evaluation, saving, done, trained };

/// Under TrainingArguments::redundancy: this rank's shard after an update, and that of rank
/// `index` - 1, or of the last one if `index` is 0.
struct ShardCopies {
  TrainerState state;  // of that update
  StepEnding ending = StepEnding::done;
  std::vector<Optimizer::ParameterState> updates = {};  // of each parameter, without moments
  int index = 0, shards = 1;                            // the rank's number, of how many
  Tensor own = {}, previous = {};  // packed; `previous` is undefined until all of it is here
};

/// All that a checkpoint has, but for the parameters, which are in the module.
struct Snapshot {
  TrainerState state;
  std::vector<Optimizer::ParameterState> moments = {};
  StepEnding ending = StepEnding::done;
  // With redundancy, parameters and moments are in shards.
  std::vector<ShardCopies> copies = {};  // of this rank, the latest update last
  std::vector<int> holders = {};         // ranks that have each shard, once all agree on an update
};

/// The ranks of `group` take over the snapshot and the parameters of the one with most updates; of
/// several, of the first that has the earliest ending. False, on every rank, if none has a
/// snapshot. `module` has no strategy; its parameters are whole on each rank. Copies of shards
/// count as a snapshot if some rank has each shard of an update. They stay where they are until
/// load_shards(), which needs a new module.
bool agree_on_snapshot(std::optional<Snapshot>& mine, nn::Module& module, const comm::Group& group);

/// Additional memory of a rank, in units of one moment's shard: two shards of two updates.
constexpr int moments_of_copies(int moments) { return 4 * (1 + moments); }

/// Adds this rank's shard to `copies`, then sends it to the next rank and receives that of the one
/// before. `now`: the rest of the state. Collective.
void copy_shards(std::vector<ShardCopies>& copies, ShardCopies now, nn::Module& module,
                 Optimizer& optimizer, const comm::Group& group);

/// Gives parameters and moments the values on which the ranks of `group` agreed. One shard at a
/// time is in memory besides. Collective.
void load_shards(const Snapshot& agreed, nn::Module& module, Optimizer& optimizer,
                 const comm::Group& group);

}  // namespace ringlet::train
