// A moving average of the parameters. It is the last of an optimizer's moments, and so sharded,
// saved and loaded as they are.
#pragma once

#include <string>
#include <vector>

#include "ringlet/core/ops/elementwise.h"
#include "ringlet/train/optimizer/step_plan.h"

namespace ringlet::train {

/// average -= (1 - decay) (average - parameter) after each update; the first makes them equal.
class MovingAverage {
 public:
  static std::vector<std::string> with_name(std::vector<std::string> moments, double decay) {
    RINGLET_CHECK(decay >= 0 && decay < 1, "[optimizer] ema_decay: expected 0 to less than 1, ",
                  "found ", decay);
    if (decay > 0) moments.emplace_back("ema");
    return moments;
  }
  MovingAverage(OptimizerState& state, double decay) : state_(state), decay_(decay) {}

  void prepare() {
    if (decay_ > 0)
      plan_.prepare(state_, [this](const OptimizerState::Entry& entry) {
        return std::vector<double>{entry.steps == 0 ? 1 : 1 - decay_, 1};
      });
  }
  /// After the update of a slice by `grad_scale`. With NaN the update and this change nothing.
  void launch(std::size_t slice, const Tensor& grad_scale) {
    if (decay_ == 0) return;
    // SGD's step of the average, by the gradient -parameter and a weight decay of 1.
    const Tensor minus = sub(mul(grad_scale, 0), 1);
    Tensor average = state_.moments()[slice].back(), none;
    sgd_(average, state_.slices()[slice].data, none, plan_.of_slice(slice, minus));
  }
  /// See Optimizer::swap_ema.
  void swap() {
    if (decay_ == 0) return;
    state_.local_moments();
    for (const OptimizerState::Span& span : state_.spans()) {
      if (state_.entries()[span.entry].steps == 0) continue;
      Tensor data = state_.part(state_.slices()[span.slice].data, span);
      Tensor average = state_.part(state_.moments()[span.slice].back(), span);
      const Tensor before = data.clone();
      data.copy_(average);
      average.copy_(before);
    }
    if (const auto& sharding = state_.arena().sharding()) sharding->after_step(true);
  }

 private:
  OptimizerState& state_;
  double decay_;
  StepPlan plan_;
};

}  // namespace ringlet::train
