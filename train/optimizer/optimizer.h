// Optimizers over a module's arena: one pass over its memory, whatever parameters lie there, and on
// a device one kernel. Definitions are those of torch.optim and clip_grad_norm_.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/ops/optimizer.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/optimizer/optimizer_state.h"

namespace ringlet::autograd {
class SideBranch;
}

namespace ringlet::train {

/// The base of all optimizers. Parameters without a gradient in a step are not changed: value,
/// moments and step count.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient and moves this thread's generator to its next
  /// step. Throws, with all parameters unchanged, when a gradient is not finite (this check waits
  /// for the device) or when no_sync left one unsummed. Throws too when no backward has run since a
  /// step of this or another optimizer. Two optimizers may alternate, each after its own backward.
  void step();
  // step() in separate calls, for pipelining. The work that launch_step enqueues depends only on
  // which parameters have a gradient, and which were updated equally often. A replay of that work
  // takes the step prepared last.
  /// Brings the rate and bias corrections of the coming step to the parameters' device.
  void prepare_step();
  /// The prepared step's plan, on which launch_step depends. It holds the bounds of the elements
  /// that are updated, and the address of the rounded copy.
  std::vector<std::int64_t> plan() const;
  void launch_norm_on(autograd::SideBranch& branch);
  /// Norm, clipping and update. Updates nothing if a gradient is not finite; later steps update
  /// nothing either, until check_steps has reported that step.
  void launch_step();
  /// To be called after a replay of launch_step's work: the parameters count as written.
  void count_replay();
  /// Counts the step; the device may not have begun it yet.
  void end_step();
  /// Waits for the norms of the ended steps except the `late` latest. Throws if a gradient was not
  /// finite: that step and later ones have updated nothing, and no longer count.
  void check_steps(std::size_t late = 0);
  void finish_step() {
    end_step();
    check_steps();
  }
  void zero_grad() const {
    if (!is_paused()) module_.zero_grad();
  }
  /// step() and zero_grad() do nothing under a NoSync of `of`, which must outlive this.
  void skip_without_sync(const nn::Module& of) { skips_under_ = &of; }

  /// The rate of parameters without a group's, times the factor.
  double lr() const { return lr_ * lr_factor_; }
  void set_lr(double lr) { lr_ = lr; }
  /// Multiplies all rates, those of groups included: a Schedule's factor.
  void set_lr_factor(double factor) { lr_factor_ = factor; }
  void set_max_grad_norm(double max_norm);
  /// Exchanges the parameters and their moving averages; nothing without ema_decay. A parameter
  /// that was never updated stays. Every rank calls it. See EmaScope.
  void swap_ema();

  /// Global norm at the last step that was checked, before clipping: block sums in f64, added in a
  /// fixed order. NaN before the first. Without checks, the first call waits for the device.
  double grad_norm() const;

  using ParameterState = OptimizerState::Named;
  /// The state of every parameter, in the arena's order; no moments if it was never updated.
  std::vector<ParameterState> state() {
    check_steps();
    return state_.state();
  }
  /// The same without moments.
  std::vector<ParameterState> updates() const { return state_.updates(); }
  /// The parameter groups as text; empty without.
  const std::string& groups() const { return groups_; }
  const std::vector<std::string>& moment_names() const { return state_.moment_names(); }
  /// Moments of each of the arena's local slices, by name, (end - begin) each.
  const std::vector<std::vector<Tensor>>& local_moments() { return state_.local_moments(); }
  /// Puts back whole moments, shaped like the parameter or flat, for the parameters named. Others
  /// start anew. Unknown names and other shapes are Error, and then nothing has been changed.
  void load_state(const std::vector<ParameterState>& states) { state_.load(states); }
  /// The counts alone, where local_moments() have been written.
  void set_updates(const std::vector<ParameterState>& states) { state_.set_updates(states); }

 protected:
  /// A local slice of the arena, of which the segments are updated.
  struct Run {
    Tensor data, grad;            // (n)
    std::vector<Tensor> moments;  // (n) each
    Tensor rounded;               // (n) bf16, to be written with data; undefined: not wanted
    StepScalars scalars;
    Tensor blocks;  // squared_norm_blocks() of grad; undefined: not computed
  };
  Optimizer(nn::Module& module, const UpdateSettings& settings,
            std::vector<std::string> moment_names);
  /// The values of Run::scalars in update() for a segment of parameters at their update number
  /// `step`, counted from 1. Their number is constant.
  virtual std::vector<double> scalars(double lr, double weight_decay, std::int64_t step) const = 0;
  virtual void update(Run& run) = 0;

 private:
  bool is_paused() const { return skips_under_ && skips_under_->no_syncs() > 0; }

  nn::Module& module_;
  double lr_;
  double lr_factor_ = 1;
  std::string groups_;
  const nn::Module* skips_under_ = nullptr;  // its NoSync pauses steps
  OptimizerState state_;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// While it lives, the module has the moving averages of its parameters, for evaluation or saving.
class EmaScope {
 public:
  explicit EmaScope(Optimizer& optimizer) : optimizer_(optimizer) { optimizer_.swap_ema(); }
  ~EmaScope() {
    try {
      optimizer_.swap_ema();
    } catch (...) {  // the next call on the group, or of the optimizer, throws it again
    }
  }
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Optimizer& optimizer_;
};

}  // namespace ringlet::train
