#include "ringlet/train/step_graphs.h"

#include <algorithm>

#include "ringlet/core/error.h"
#include "ringlet/core/kernel.h"
#include "ringlet/core/quote.h"

namespace ringlet::train {
namespace {

/// The batch's numbers and `inputs`' tensors, which get the batch's values.
void fill_inputs(models::PackedBatch& inputs, const models::PackedBatch& batch) {
  models::PackedBatch filled = batch;
  for (Tensor models::PackedBatch::*part :
       {&models::PackedBatch::token_ids, &models::PackedBatch::token_index,
        &models::PackedBatch::positions, &models::PackedBatch::cu_seqlens,
        &models::PackedBatch::lengths, &models::PackedBatch::sentence_ids,
        &models::PackedBatch::labels}) {
    if (!(batch.*part).defined()) continue;
    (inputs.*part).copy_(batch.*part);
    filled.*part = inputs.*part;
  }
  inputs = filled;
}

bool has_hooks(nn::Module& module) {
  bool found = false;
  module.visit([&](const std::string&, nn::Module& below) {
    const nn::ModuleHooks& hooks = below.hooks();
    found = found || hooks.pre_forward || hooks.post_forward || hooks.pre_backward;
  });
  return found;
}

bool has_grad(const nn::Parameter& parameter) { return parameter.state()->has_grad; }

}  // namespace

StepGraphMode parse_step_graphs(const std::string& name) {
  if (name == "auto") return StepGraphMode::automatic;
  if (name == "off") return StepGraphMode::off;
  fail_input("unknown step graphs ", quote(name), "; expected ", kStepGraphModes);
}

StepGraphs::StepGraphs(nn::Module& module, Device device, StepGraphsOptions options)
    : module_(module),
      device_(device),
      options_(std::move(options)),
      parameters_(module.parameters()),
      gave_up_(options_.mode == StepGraphMode::off) {
  if (const std::string why = why_no_graphs(device); !gave_up_ && !why.empty()) give_up(why);
}

Tensor StepGraphs::run(const models::PackedBatch& batch, const Work& work) {
  const auto key = step_key(batch, options_.dtype, module_.training());
  if (!key) return work(batch.to(device_));
  const models::PackedBatch filled = models::filled_up(batch, key->tokens);
  // Gradients that are there are added to, and who watches kernels wants to see them.
  const bool adds = std::any_of(parameters_.begin(), parameters_.end(), has_grad);
  if (gave_up_ || adds || kernel_observer.load() != nullptr) return work(filled.to(device_));
  if (Addresses now = addresses(); now != addresses_) {
    steps_.clear();
    addresses_ = std::move(now);
  }
  Step& step = steps_.find(*key, [] { return Step{}; });
  const bool first = !step.inputs.token_ids.defined();
  if (first)
    step.inputs = filled.to(device_);
  else
    fill_inputs(step.inputs, filled);
  if (!first) return run_bucket(step, work);
  const Tensor loss = work(step.inputs);
  step.loss = empty_like(loss);
  return loss;
}

Tensor StepGraphs::run_bucket(Step& step, const Work& work) {
  if (step.graph) return replay(step);
  try {
    if (const std::string why = why_not(); !why.empty()) fail(why);
    capture_step(step, work);
    return replay(step);
  } catch (const Error& error) {
    if (step.graph) throw;  // the device's own
    module_.zero_grad();
    const models::PackedBatch inputs = step.inputs;
    give_up(error.what());
    return work(inputs);
  }
}

void StepGraphs::capture_step(Step& step, const Work& work) {
  // Other forms of parameters that evaluating has left would be read by every replay.
  write_to_parameters();
  auto graph = capture(device_, [&] {
    step.loss.copy_(work(step.inputs));
    write_to_parameters();  // the forms that were made here go with their memory
  });
  step.reached.clear();
  for (const nn::Parameter& parameter : parameters_) step.reached.push_back(has_grad(parameter));
  step.graph = std::move(graph);
  ++captured_;
}

Tensor StepGraphs::replay(Step& step) {
  step.graph->replay();
  ++replayed_;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].state()->has_grad = step.reached[i];
  return step.loss;
}

Tensor StepGraphs::run_eagerly(const models::PackedBatch& batch, const Work& work,
                               const std::string& why) {
  note(why);
  return work(batch.to(device_));
}

void StepGraphs::give_up(const std::string& why) {
  gave_up_ = true;
  steps_.clear();
  note(why);
}

void StepGraphs::note(const std::string& why) {
  if (noted_.insert(why).second && options_.on_note)
    options_.on_note("steps are not captured as graphs: " + why);
}

StepGraphs::Addresses StepGraphs::addresses() const {
  Addresses all;
  for (const nn::Parameter& parameter : parameters_) {
    const autograd::VariableState& state = *parameter.state();
    all.push_back(state.data.bytes());
    all.push_back(state.grad_buffer.defined() ? state.grad_buffer.bytes() : nullptr);
    all.push_back(state.requires_grad ? &state : nullptr);
  }
  return all;
}

// What runs on the host in every step, and what would write where no graph may.
std::string StepGraphs::why_not() const {
  if (has_hooks(module_)) return "hooks of modules run on the host";
  for (const nn::Parameter& parameter : parameters_) {
    const autograd::VariableState& state = *parameter.state();
    if (!state.hooks.empty() || !state.observer.expired())
      return str("hooks of '", state.name, "' run on the host");
  }
  return "";
}

void StepGraphs::write_to_parameters() const {
  for (const nn::Parameter& parameter : parameters_) parameter.tensor().storage()->bump_version();
}

}  // namespace ringlet::train
