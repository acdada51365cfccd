// A training's state in memory, with which the ranks that are left go on after the end of a peer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train {

/// The parts of a step after its update, in this order: done again from here if not completed.
enum class StepEnding : std::uint8_t { evaluation, saving, done };

/// All that a checkpoint has, but for the parameters, which are in the module.
struct Snapshot {
  TrainerState state;
  std::vector<Optimizer::ParameterState> moments;
  StepEnding ending = StepEnding::done;
};

/// The ranks of `group` take over the snapshot and the parameters of the one with most updates; of
/// several, of the first that has the earliest ending. False, on every rank, if none has a
/// snapshot. `module` has no strategy; its parameters are whole on each rank.
bool agree_on_snapshot(std::optional<Snapshot>& mine, nn::Module& module, const comm::Group& group);

}  // namespace ringlet::train
