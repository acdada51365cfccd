#include "ringlet/train/parallel/strategy.h"

#include <utility>

#include "ringlet/core/device/graph.h"
#include "ringlet/nn/place.h"
#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/parallel/reach.h"
#include "ringlet/train/parallel/same_module.h"

namespace ringlet::train {

namespace {

nn::Arena& arena_of(Strategy strategy, nn::Module& module, int ranks, const nn::UnitPolicy& units) {
  check_memory_limit(strategy, module, ranks, 0, units);
  const auto arena = traits(strategy).parameters ? nn::plan(module, units) : nn::pack(module);
  RINGLET_CHECK(!arena->sharding() && !nn::on_several_devices(module), "[", kStrategies(strategy),
                "] the module has a strategy already, or parameters on several devices");
  return *arena;  // the module's
}

}  // namespace

RankStrategy::RankStrategy(Strategy strategy, nn::Module& module, const comm::Group& group,
                           bool average, int logical_ranks, const nn::UnitPolicy& units)
    : nn::Sharding(arena_of(strategy, module, group.size(), units), group, group),
      name_(kStrategies(strategy)),
      module_(module),
      reach_(std::make_unique<ReachCheck>(module)) {
  average_ = average;
  logical_ranks_ = logical_ranks;
  check_logical_ranks();
  for (std::size_t u = 0; u < arena_->units().size(); ++u) {
    for (const nn::PlacedParameter& slot : arena_->units()[u].parameters) {
      index_[slot.parameter.state().get()] = items_.size();
      items_.push_back({{slot.parameter.state().get()}, u, &slot});
    }
  }
  check_same_module(name_, module_, group_);
  RINGLET_CHECK(!items_.empty(), "[", name_, "] the module has no parameters");
  broadcast(!traits(strategy).parameters);
  // Decides what `automatic` is, so that steps can say whether they are captured.
  if (const Device on = module_.device(); on.type != DeviceType::cpu &&
                                          group_.transport(on) == comm::TransportKind::thread &&
                                          group_.options().algorithm == comm::Algorithm::automatic)
    group_.all_reduce(zeros({1}, DType::f32, on)).wait();
  if (traits(strategy).parameters) return;
  self_ = {this, [](RankStrategy*) {}};
  attach(self_);
}

RankStrategy::~RankStrategy() {
  if (alive_.expired()) return;
  arena_->set_sharding(nullptr);
  module_.visit([&](const std::string&, nn::Module& below) { below.set_strategy_hooks({}); });
}

void RankStrategy::broadcast(bool data) {
  for (const auto& [name, buffer] : module_.named_buffers()) group_.broadcast(buffer, 0).wait();
  if (!data) return;
  group_.broadcast(arena_->data(), 0).wait();
  arena_->data().storage()->bump_version();
}

void RankStrategy::attach(std::shared_ptr<RankStrategy> self) {
  alive_ = module_.arena();
  for (Item& item : items_) item.state->observer = self;
  arena_->set_sharding(std::move(self));
  module_.visit([&](const std::string&, nn::Module& below) {
    below.set_strategy_hooks(&below == &module_ ? outermost(hooks(below)) : hooks(below));
  });
}

nn::ModuleHooks RankStrategy::hooks(nn::Module& module) {
  if (!module.is_loss()) return {};
  return {{}, [this](nn::Module& left) { reach_->ran(left); }, {}};
}

nn::ModuleHooks RankStrategy::outermost(nn::ModuleHooks hooks) {
  const bool buffers = !module_.named_buffers().empty();
  hooks.pre_forward = [this, buffers, then = hooks.pre_forward](nn::Module& entered) {
    reach_->forward_begins();
    if (then) then(entered);
    if (buffers) share_buffers();
  };
  hooks.forward_failed = [this, then = hooks.forward_failed](nn::Module& left) {
    reach_->forward_failed();
    if (then) then(left);
  };
  return hooks;
}

// Each rank's forward may have changed them. Without gradients, ranks may run separately.
void RankStrategy::share_buffers() const {
  if (!autograd::grad_enabled() || !module_.training() || module_.no_syncs() > 0) return;
  for (const auto& [name, buffer] : module_.named_buffers()) {
    const Tensor first =
        rank() == 0 ? buffer : empty(buffer.shape(), buffer.dtype(), buffer.device());
    group_.broadcast(first, 0).wait();
    update_buffer(buffer, first);
  }
}

void RankStrategy::backward_ends() {
  for (const Item& item : items_) item.state->partial = item.pending;
  running_ = false;
}

// Backward in a capture has changed nothing.
void RankStrategy::backward_failed() noexcept {
  broken_ = broken_ || (std::exchange(running_, false) && !is_capturing());
}

void RankStrategy::gradients_are_sums() {
  for (Item& item : items_) {
    item.forget();
    item.reduced = item.state->has_grad;
    item.pending = item.carried = item.state->partial = false;
  }
}

std::string RankStrategy::why_not_captured() const {
  if (logical_ranks() > size()) return "a step of several logical ranks is not captured";
  if (!module_.named_buffers().empty()) return "buffers follow those of rank 0";
  const Device device = module_.device();
  const bool captured = size() == 1 || comm::is_in_kernel(group_.algorithm(device)) ||
                        group_.transport(device) == comm::TransportKind::nccl;
  return captured ? "" : "of several ranks only NCCL and algorithm in-kernel-direct are captured";
}

void RankStrategy::check_usable() const {
  RINGLET_CHECK(!broken_, "[", name_, "] a backward threw before its end: there is no gradient to ",
                "go on from, and ranks may have gone apart; start again from a checkpoint");
}

bool RankStrategy::begin(std::span<autograd::VariableState* const> reached) {
  check_usable();
  if (!allows_unused_) reach_->check(name_, reached);
  running_ = true;
  for (Item& item : items_) {
    item.reached = false;
    if (item.state->has_grad || item.carried) continue;
    item.pending = false;
    item.forget();
  }
  for (const autograd::VariableState* leaf : reached) item_of(*leaf).reached = true;
  return module_.no_syncs() == 0;
}

}  // namespace ringlet::train
