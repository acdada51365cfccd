#include "ringlet/train/step/step_graphs.h"

#include <algorithm>

#include "ringlet/autograd/side_branch.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::train {
namespace {

bool has_hooks(const nn::Module* module) {
  for (const nn::ModuleHooks* hooks : {&module->hooks(), &module->strategy_hooks()})
    if (hooks->pre_forward || hooks->post_forward || hooks->pre_backward) return true;
  return false;
}

/// While it lives, dropout reads the step's keys from the device's memory.
class KeysInUse {
 public:
  explicit KeysInUse(SiteKeys& keys) : before_(default_generator().keys) {
    RandomGenerator& generator = default_generator();
    keys.fill(generator.seed, generator.step);
    generator.keys = &keys;
  }
  ~KeysInUse() { default_generator().keys = before_; }
  KeysInUse(const KeysInUse&) = delete;
  KeysInUse& operator=(const KeysInUse&) = delete;

 private:
  SiteKeys* before_;
};

bool has_grad(const nn::Parameter& parameter) { return parameter.state()->has_grad; }

}  // namespace

StepGraphs::StepGraphs(nn::Module& module, Optimizer& optimizer, Device device,
                       StepGraphsOptions options)
    : module_(module),
      optimizer_(optimizer),
      device_(device),
      options_(std::move(options)),
      parameters_(module.parameters()),
      keys_(device),
      gave_up_(options_.mode == StepGraphMode::off) {
  module.visit([&](const std::string&, nn::Module& below) { modules_.push_back(&below); });
  if (const std::string why = why_no_graphs(device); !gave_up_ && !why.empty()) give_up(why);
}

Tensor StepGraphs::run(const models::PackedBatch& batch, const Work& work) {
  const KeysInUse keys(keys_);
  const auto key = step_key(batch, options_.dtype, module_.training());
  if (!key) return update(work(batch.to(device_)));
  const models::PackedBatch filled = models::filled_up(batch, key->tokens);
  if (!may_be_graph()) return update(work(filled.to(device_)));
  if (Addresses now = addresses(); now != addresses_) {
    steps_.clear();
    addresses_ = std::move(now);
  }
  Step& step = steps_.find(*key, [] { return Step{}; });
  if (step.graph) {
    step.inputs.fill_(filled);
    if (prepare_replay(step)) return replay(step);
  } else {
    step.inputs = filled.to(device_);
  }
  return run_first(step, work);
}

bool StepGraphs::may_be_graph() {
  // Existing gradients are added to, and an observer of kernels must see them.
  const bool adds = std::any_of(parameters_.begin(), parameters_.end(), has_grad);
  if (gave_up_ || adds || kernel_observer.load() != nullptr) return false;
  const std::string why = why_not();
  if (!why.empty()) give_up(why);
  return why.empty();
}

// The capture is part of this step. A bucket's first batch therefore takes all memory that the
// bucket ever takes, that of the graph on the device included. A bucket that never comes again
// wastes one step's host time.
Tensor StepGraphs::run_first(Step& step, const Work& work) {
  const Tensor loss = work(step.inputs);
  step.loss = empty_like(loss);
  step.reached = reached();
  update(loss);
  if (const std::string why = capture_step(step, work); !why.empty()) give_up(why);
  return loss;
}

// Runs after the step itself, and keeps its gradients, update and generator unchanged.
std::string StepGraphs::capture_step(Step& step, const Work& work) {
  const RandomGenerator generator = default_generator();
  // Sidecars of parameters that an evaluation has left would be read by every replay.
  drop_sidecars();
  module_.zero_grad();
  std::string why;
  try {
    autograd::SideBranch branch(device_);
    step.graph = capture(device_, [&] {
      const autograd::SideBranch::Scope on(branch);
      optimizer_.launch_norm_on(branch);
      step.loss.copy_(work(step.inputs));
      RINGLET_CHECK(reached() == step.reached,
                    "batches of the same shapes reached different parameters");
      optimizer_.launch_step();  // as it was prepared for the step
      drop_sidecars();           // sidecars of the capture are freed with its memory
      branch.join();
    });
    step.plan = optimizer_.plan();
    ++captured_;
  } catch (const Error& error) {
    why = error.what();
  }
  set_reached(step.reached);
  default_generator() = generator;
  return why;
}

// False if the update plan changed since the capture: the graph must not be replayed.
bool StepGraphs::prepare_replay(const Step& step) {
  set_reached(step.reached);
  optimizer_.prepare_step();
  if (step.plan == optimizer_.plan()) return true;
  module_.zero_grad();
  return false;
}

Tensor StepGraphs::replay(Step& step) {
  step.graph->replay();
  ++replayed_;
  optimizer_.count_replay();
  return step.loss;
}

Tensor StepGraphs::update(Tensor loss) {
  const TimelinePhase phase("optimizer");
  optimizer_.prepare_step();
  optimizer_.launch_step();
  return loss;
}

Tensor StepGraphs::run_eagerly(const models::PackedBatch& batch, const Work& work,
                               const std::string& why) {
  note(why);
  return update(work(batch.to(device_)));
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

std::vector<bool> StepGraphs::reached() const {
  std::vector<bool> all;
  for (const nn::Parameter& parameter : parameters_) all.push_back(has_grad(parameter));
  return all;
}

void StepGraphs::set_reached(const std::vector<bool>& reached) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].state()->has_grad = reached[i];
}

// Hooks and observers run on the host in every step, and may write memory that no graph may.
std::string StepGraphs::why_not() const {
  if (std::any_of(modules_.begin(), modules_.end(), has_hooks))
    return "hooks of modules run on the host";
  for (const nn::Parameter& parameter : parameters_) {
    const autograd::VariableState& state = *parameter.state();
    const bool hooked = std::any_of(state.hooks.begin(), state.hooks.end(),
                                    [](const auto& hook) { return !hook.expired(); });
    if (hooked || !state.observer.expired())
      return str("hooks of '", state.name, "' run on the host");
  }
  return "";
}

void StepGraphs::drop_sidecars() const {
  for (const nn::Parameter& parameter : parameters_) parameter.tensor().storage()->drop_sidecars();
}

}  // namespace ringlet::train
