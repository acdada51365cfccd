#include "ringlet/train/step/step_graphs.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "ringlet/autograd/side_branch.h"
#include "ringlet/comm/rows.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/train/parallel/strategy.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::train {
namespace {

bool has_hooks(const nn::ModuleHooks& hooks) {
  return hooks.pre_forward || hooks.post_forward || hooks.pre_backward;
}

template <class T>
std::uint64_t hash_of(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* const bytes = reinterpret_cast<const char*>(values.data());
  return std::hash<std::string_view>()({bytes, values.size() * sizeof(T)});
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
      gave_up_(options_.mode == StepGraphMode::off),
      votes_(!gave_up_ && strategy() && strategy()->group().size() > 1) {
  module.visit([&](const std::string&, nn::Module& below) { modules_.push_back(&below); });
  if (const std::string why = why_no_graphs(device); !gave_up_ && !why.empty()) give_up(why);
}

Tensor StepGraphs::run(const models::PackedBatch& batch, const Work& work) {
  const KeysInUse keys(keys_);
  const auto key = step_key(batch, options_.dtype, module_.training());
  const models::PackedBatch filled = key ? models::filled_up(batch, key->tokens) : batch;
  Step* const step = key && may_be_graph() ? &step_of(*key) : nullptr;
  const bool has_graph = step && step->graph;
  Turn turn = step ? Turn::captured : Turn::eager;
  if (has_graph) {
    step->inputs.fill_(filled);
    if (prepare_replay(*step)) turn = Turn::replayed;
  }
  if (votes_) turn = agree(turn, step);
  if (turn == Turn::replayed) return replay(*step);
  if (has_graph) module_.zero_grad();  // a replay would have had gradients
  if (turn == Turn::eager) return update(work(filled.to(device_)));
  if (!has_graph) step->inputs = filled.to(device_);
  return run_first(*step, work);
}

StepGraphs::Step& StepGraphs::step_of(const StepKey& key) {
  if (Addresses now = addresses(); now != addresses_) {
    steps_.clear();
    addresses_ = std::move(now);
  }
  return steps_.find(key, [] { return Step{}; });
}

// Graphs of different shapes have the same collectives if they reach the same parameters. They fit
// together if all ranks' memory is where it was when they were captured.
StepGraphs::Turn StepGraphs::agree(Turn mine, const Step* step) {
  const comm::Group& group = strategy()->group();
  const Turn able = gave_up_ ? Turn::never : mine;
  const std::uint64_t fits = mine == Turn::replayed ? step->fits : 0;
  const std::vector<std::uint64_t> own{static_cast<std::uint64_t>(able), hash_of(addresses_), fits,
                                       static_cast<std::uint64_t>(device_.index)};
  std::vector<std::vector<std::uint64_t>> votes;
  try {
    votes = comm::all_gather_values(group, own);
  } catch (const Error& error) {  // over NCCL peers may wait in the capture that this rank left
    if (why_.empty()) throw;
    fail(error.what(), "; rank ", group.rank(), " captures no steps: ", why_);
  }
  std::set<std::uint64_t> turns, fitting, devices;
  peers_.clear();
  for (const std::vector<std::uint64_t>& vote : votes) {
    turns.insert(vote[0]);
    peers_.push_back(vote[1]);
    fitting.insert(vote[2]);
    devices.insert(vote[3]);
  }
  const bool share =  // processes capture separately
      devices.size() < votes.size() && group.transport(Device{}) == comm::TransportKind::thread;
  if (share && !gave_up_) give_up("ranks share a GPU");
  votes_ = !share && !turns.contains(static_cast<std::uint64_t>(Turn::never));
  if (!votes_ && !share) give_up_with(group.all_gather_bytes(why_));
  const Turn least = static_cast<Turn>(*turns.begin());
  if (!votes_ || least == Turn::eager) return Turn::eager;
  const bool fit = least == Turn::replayed && fitting == std::set{fits_of(*step)};
  return fit ? Turn::replayed : Turn::captured;
}

// With those of the latest agreement.
std::uint64_t StepGraphs::fits_of(const Step& step) const {
  std::vector<std::uint64_t> all = peers_;
  all.insert(all.end(), step.reached.begin(), step.reached.end());
  return hash_of(all);
}

bool StepGraphs::may_be_graph() {
  // Existing gradients are added to, and an observer of kernels must see them.
  const bool adds = std::any_of(parameters_.begin(), parameters_.end(), has_grad);
  if (gave_up_ || adds || kernel_observer.load() != nullptr || module_.no_syncs() > 0) return false;
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
    step.fits = fits_of(step);
    ++captured_;
  } catch (const Error& error) {
    if (votes_ && strategy()->group().store().raised())
      throw;  // the group has failed, not this step
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
  return step.plan == optimizer_.plan();
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
  why_ = why;
  steps_.clear();
  note(why);
}

// The first rank's reason.
void StepGraphs::give_up_with(const std::vector<std::string>& reasons) {
  const auto found = std::ranges::find_if_not(reasons, &std::string::empty);
  if (!gave_up_) give_up(str("rank ", found - reasons.begin(), ": ", *found));
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
  if (const auto ranks = strategy()) ranks->gradients_are_sums();
}

std::shared_ptr<RankStrategy> StepGraphs::strategy() const {
  return std::dynamic_pointer_cast<RankStrategy>(parameters_.front().state()->observer.lock());
}

// Hooks and observers run on the host in every step, and may write memory that no graph may.
std::string StepGraphs::why_not() const {
  const auto ranks = strategy();
  for (const nn::Module* module : modules_)
    if (has_hooks(module->hooks()) || (!ranks && has_hooks(module->strategy_hooks())))
      return "hooks of modules run on the host";
  for (const nn::Parameter& parameter : parameters_) {
    const autograd::VariableState& state = *parameter.state();
    const bool hooked = std::any_of(state.hooks.begin(), state.hooks.end(),
                                    [](const auto& hook) { return !hook.expired(); });
    if (hooked || state.observer.lock() != ranks)
      return str("hooks of '", state.name, "' run on the host");
  }
  return ranks ? ranks->why_no_graphs() : "";
}

void StepGraphs::drop_sidecars() const {
  for (const nn::Parameter& parameter : parameters_) parameter.tensor().storage()->drop_sidecars();
}

}  // namespace ringlet::train
