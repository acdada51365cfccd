#include "ringlet/train/optimizer/optimizer.h"

#include "ringlet/train/optimizer/gradient_norm.h"
#include "ringlet/train/optimizer/moving_average.h"
#include "ringlet/train/optimizer/rounded_mirror.h"
#include "ringlet/train/optimizer/step_plan.h"

namespace ringlet::train {

struct Optimizer::Parts {
  StepPlan plan = {};
  GradientNorm norm;
  RoundedMirror mirror;
  MovingAverage average;
};

Optimizer::Optimizer(nn::Module& module, const UpdateSettings& settings,
                     std::vector<std::string> moment_names)
    : module_(module),
      lr_(settings.lr),
      groups_(describe(settings.groups)),
      state_(module, settings,
             MovingAverage::with_name(std::move(moment_names), settings.ema_decay)),
      parts_(new Parts{.norm = {state_, settings.max_grad_norm, settings.check_finite},
                       .mirror = RoundedMirror(state_.arena()),
                       .average = {state_, settings.ema_decay}}) {}

Optimizer::~Optimizer() = default;

void Optimizer::step() {
  if (is_paused()) return;
  prepare_step();
  launch_step();
  finish_step();
}

void Optimizer::prepare_step() {
  state_.prepare_step();
  parts_->plan.prepare(state_, [this](const OptimizerState::Entry& entry) {
    return scalars(entry.lr.value_or(lr_) * lr_factor_, entry.weight_decay, entry.steps + 1);
  });
  parts_->average.prepare();
  parts_->mirror.prepare();
}

std::vector<std::int64_t> Optimizer::plan() const {
  std::vector<std::int64_t> plan = parts_->plan.bounds();
  plan.push_back(reinterpret_cast<std::intptr_t>(parts_->mirror.values().bytes()));
  return plan;
}

void Optimizer::launch_step() {
  auto& [plan, norm, mirror, average] = *parts_;
  norm.launch();
  const bool mirrored = mirror.is_current();
  for (std::size_t i = 0; i < state_.slices().size(); ++i) {
    const nn::LocalSlice& slice = state_.slices()[i];
    Run run{slice.data,
            slice.grad,
            state_.moments()[i],
            mirrored ? mirror.values() : Tensor(),
            plan.of_slice(i, norm.scale().to(slice.data.device())),
            norm.slice_blocks(slice)};
    if (!run.scalars.segments.defined()) continue;
    update(run);
    average.launch(i, run.scalars.grad_scale);
  }
  if (mirrored) mirror.keep();
  if (const auto& sharding = state_.arena().sharding()) sharding->after_step();
}

void Optimizer::count_replay() {
  RoundedMirror& mirror = parts_->mirror;
  const bool mirrored = mirror.is_current();
  for (const nn::LocalSlice& slice : state_.slices()) slice.data.storage()->bump_version();
  if (mirrored) mirror.keep();
}

void Optimizer::swap_ema() {
  check_steps();
  parts_->average.swap();
}

void Optimizer::launch_norm_on(autograd::SideBranch& branch) { parts_->norm.launch_on(branch); }
void Optimizer::end_step() { parts_->norm.end_step(); }
void Optimizer::check_steps(std::size_t late) { parts_->norm.check_steps(late); }
void Optimizer::set_max_grad_norm(double max_norm) { parts_->norm.set_max_norm(max_norm); }
double Optimizer::grad_norm() const { return parts_->norm.checked(); }

}  // namespace ringlet::train
