#include "ringlet/train/optimizer.h"

namespace ringlet::train {

std::vector<std::string> parameters_without_grad(const nn::Module& module) {
  std::vector<std::string> names;
  for (const nn::NamedParameter& named : module.named_parameters())
    if (named.parameter.requires_grad() && !named.parameter.grad().defined())
      names.push_back(named.name);
  return names;
}

Optimizer::Optimizer(nn::Module& module, double lr, double max_grad_norm, bool check_finite,
                     std::vector<std::string> moment_names)
    : module_(module),
      lr_(lr),
      state_(module, std::move(moment_names)),
      norm_(state_, max_grad_norm, check_finite),
      mirror_(state_.arena()) {}

void Optimizer::prepare_step() {
  state_.prepare_step();
  plan_.prepare(state_, [this](std::int64_t step) { return scalars(step); });
  mirror_.prepare();
}

std::vector<std::int64_t> Optimizer::plan() const {
  std::vector<std::int64_t> plan = plan_.bounds();
  plan.push_back(reinterpret_cast<std::intptr_t>(mirror_.values().bytes()));
  return plan;
}

void Optimizer::launch_step() {
  norm_.launch();
  const bool mirrored = mirror_.is_current();
  for (std::size_t i = 0; i < state_.slices().size(); ++i) {
    const nn::LocalSlice& slice = state_.slices()[i];
    Run run{slice.data, slice.grad, state_.moments()[i], mirrored ? mirror_.values() : Tensor(),
            plan_.of_slice(i, norm_.scale())};
    if (run.scalars.segments.defined()) update(run);
  }
  if (mirrored) mirror_.keep();
  if (const auto& sharding = state_.arena().sharding()) sharding->after_step();
}

void Optimizer::count_replay() {
  const bool mirrored = mirror_.is_current();
  for (const nn::LocalSlice& slice : state_.slices()) slice.data.storage()->bump_version();
  if (mirrored) mirror_.keep();
}

}  // namespace ringlet::train
