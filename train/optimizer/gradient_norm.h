// The global norm of gradients, the factor that clips it, and the check that it is finite.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <unordered_map>

#include "ringlet/autograd/side_branch.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/tensor/host_copy.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/train/optimizer/optimizer_state.h"

namespace ringlet::train {

/// Both are computed on the first parameter's device; the host reads them later (see Optimizer).
class GradientNorm {
 public:
  /// Clips the norm to `max_norm` (0: no clipping). `check_finite`: a step with another norm is
  /// refused. With neither, no norm is computed.
  GradientNorm(OptimizerState& state, double max_norm, bool check_finite)
      : state_(state),
        max_norm_(max_norm),
        check_finite_(check_finite),
        blocks_(empty({blocks_of(state.largest_arena())}, DType::f64, state.device())),
        clip_(tensor(std::vector<double>{0, 1, 0}, {3}, state.device())) {}

  void set_max_norm(double max_norm) { max_norm_ = max_norm; }

  /// To be called before the backward of a captured step. When the gradients of a unit are
  /// complete, `branch` adds up their squares, while the device's cache has them. launch() does the
  /// others.
  void launch_on(autograd::SideBranch& branch) {
    const nn::Arena& arena = state_.arena();
    if (!is_on() || arena.sharding() || !arena.data().defined() || state_.slice_group().size() > 1)
      return;
    blocks_.zero_();
    const auto completed = std::make_shared<Completed>();
    completed_ = completed;
    branch.on_complete([this, &branch, completed](const autograd::VariableState& leaf) {
      ++(*completed)[&leaf];
      for (const nn::Unit& unit : state_.arena().units())
        if (holds(unit, leaf) && is_complete(unit, *completed))
          branch.run({}, [&] { add_up(unit); });
    });
  }
  void launch() {
    if (!is_on()) return;
    const std::shared_ptr<const Completed> completed = completed_.lock();
    // The gradient memory of a skipped parameter holds anything; zeros keep it out of its block.
    for (const OptimizerState::Span& span : state_.spans())
      if (!state_.entries()[span.entry].has_grad()) state_.grad(span).zero_();
    if (!completed) blocks_.zero_();  // those of other ranks
    for (const nn::Unit& unit : state_.arena().units())
      if (!completed || !is_complete(unit, *completed)) add_up(unit);
    if (const auto& sharding = state_.arena().sharding()) sharding->gather_norm_blocks(blocks_);
    state_.slice_group().all_reduce(blocks_).wait();
    clip_factor_into(clip_, blocks_, max_norm_, check_finite_);
  }
  /// The factor of the gradients, (1) f64; NaN: nothing is updated.
  Tensor scale() const { return clip_.slice(1, 2); }
  /// The squared norms of the gradient's blocks in this slice; undefined if launch() computed none.
  /// Ranks that hold slices of parameters add theirs up, by numbers that are not equal blocks.
  Tensor slice_blocks(const nn::LocalSlice& slice) const {
    if (!is_on() || state_.slice_group().size() > 1 || slice.grad.device() != blocks_.device())
      return {};
    return blocks_.slice(slice.begin / kNormBlock, blocks_of(slice.end));
  }
  /// Counts the launched step, and moves this thread's generator to its next step.
  void end_step() {
    ended_.push_back(
        {is_on() ? HostCopy(clip_) : HostCopy(), state_.count_step(), default_generator()});
    default_generator().next_step();
  }
  /// See Optimizer::check_steps.
  void check_steps(std::size_t late) {
    for (; ended_.size() > late; ended_.pop_front()) {
      Ended& oldest = ended_.front();
      if (!oldest.clip.defined()) continue;
      try {
        oldest.clip.values();
      } catch (...) {  // a wrong label or id on a GPU
        undo_ended();
        throw;
      }
      checked_ = std::move(oldest.clip);
      if (!check_finite_ || std::isfinite(checked())) continue;
      const OptimizerState::Indices updated = oldest.updated;
      undo_ended();
      fail_not_finite(updated);
    }
  }
  /// The norm of the step that was checked last; NaN before the first.
  double checked() const {
    return checked_.defined() ? checked_.values()[0] : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  /// How often each leaf's gradient was completed; a second time adds to it.
  using Completed = std::unordered_map<const autograd::VariableState*, int>;
  /// A step that was ended and not checked.
  struct Ended {
    HostCopy clip;  // undefined where there is no norm
    OptimizerState::Indices updated;
    RandomGenerator generator;  // before
  };
  static bool holds(const nn::Unit& unit, const autograd::VariableState& leaf) {
    return std::ranges::any_of(unit.parameters, [&](const nn::PlacedParameter& placed) {
      return placed.parameter.state().get() == &leaf;
    });
  }
  static bool is_complete(const nn::Unit& unit, const Completed& completed) {
    return std::ranges::all_of(unit.parameters, [&](const nn::PlacedParameter& placed) {
      const auto found = completed.find(placed.parameter.state().get());
      return found != completed.end() && found->second == 1;
    });
  }
  // Writes the unit's blocks, of the local slices.
  void add_up(const nn::Unit& unit) {
    for (const nn::LocalSlice& slice : state_.slices()) {
      const std::int64_t begin = std::max(unit.begin, slice.begin);
      const std::int64_t end = std::min(unit.end, slice.end);
      if (begin >= end) continue;
      const std::int64_t first = begin / kNormBlock;
      Tensor blocks = blocks_.slice(first, first + blocks_of(end - begin));
      const Tensor grad = counted(slice, unit, begin, end);
      if (grad.device() == blocks.device()) {
        squared_norm_blocks_into(blocks, grad);
      } else {
        blocks.copy_(squared_norm_blocks(grad));
      }
    }
  }
  // The gradients of [begin, end), but zeros where another rank has the same ones.
  Tensor counted(const nn::LocalSlice& slice, const nn::Unit& unit, std::int64_t begin,
                 std::int64_t end) const {
    const Tensor all = slice.grad.slice(begin - slice.begin, end - slice.begin);
    if (state_.slice_group().rank() == 0) return all;
    const Tensor own = all.clone();
    for (const nn::PlacedParameter& placed : unit.parameters) {
      const std::int64_t first = std::max(placed.offset, begin);
      const std::int64_t last = std::min(placed.offset + placed.numel(), end);
      if (first < last && !placed.parameter.state()->slice)
        own.slice(first - begin, last - begin).zero_();
    }
    return own;
  }
  static std::int64_t blocks_of(std::int64_t n) { return (n + kNormBlock - 1) / kNormBlock; }
  bool is_on() const { return max_norm_ > 0 || check_finite_; }

  // Neither they nor the device's work for them have changed anything.
  void undo_ended() {
    default_generator().step = ended_.front().generator.step;
    default_generator().draws = ended_.front().generator.draws;
    for (const Ended& ended : ended_) state_.undo(ended.updated);
    ended_.clear();
    clip_.zero_();  // the next step is refused no longer
  }

  // Checks the part of the gradient that this process holds; true if there is none.
  bool grad_is_finite(std::size_t entry) const {
    if (!state_.entries()[entry].has_grad()) return true;
    for (const OptimizerState::Span& span : state_.spans()) {
      if (span.entry != entry) continue;
      for (const double block : squared_norm_blocks(state_.grad(span)).to_vector<double>())
        if (!std::isfinite(block)) return false;
    }
    return true;
  }

  // Names the parameters in the block that was found, or only the one with a gradient that is still
  // not finite.
  [[noreturn]] void fail_not_finite(const OptimizerState::Indices& updated) const {
    const std::int64_t begin = static_cast<std::int64_t>(checked_.values()[2]) * kNormBlock;
    std::string names;
    for (const std::size_t i : updated) {
      const nn::PlacedParameter& placed = state_.entries()[i].placed;
      if (placed.offset >= begin + kNormBlock || placed.offset + placed.numel() <= begin) continue;
      const bool is_cause = !grad_is_finite(i);
      names = is_cause || names.empty() ? str('\'', placed.name, '\'')
                                        : str(names, " or '", placed.name, '\'');
      if (is_cause) break;
    }
    // Blocks of f64 may have a sum that is not finite.
    fail("[optimizer] the gradient", names.empty() ? "'s norm" : " of ", names,
         " is not finite; nothing was updated");
  }

  OptimizerState& state_;
  double max_norm_;
  bool check_finite_;
  Tensor blocks_;                             // of the whole arena
  Tensor clip_;                               // (3), of clip_factor()
  std::weak_ptr<const Completed> completed_;  // in the capture of a step with launch_on()
  std::deque<Ended> ended_;                   // oldest first
  mutable HostCopy checked_;                  // of clip_, at the step that was checked last
};

}  // namespace ringlet::train
