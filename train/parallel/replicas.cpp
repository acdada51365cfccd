#include "ringlet/train/parallel/replicas.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ringlet/autograd/leaf_recorder.h"
#include "ringlet/autograd/node.h"
#include "ringlet/comm/device_clock.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/core/threads/processors.h"
#include "ringlet/nn/clone.h"
#include "ringlet/nn/place.h"
#include "ringlet/train/parallel/same_module.h"

namespace ringlet::train {
namespace {

/// The same bytes as a tensor of another CPU device; a copy where the memory is not shared.
Tensor seen_from(Device device, const Tensor& tensor) {
  const Device from = tensor.device();
  if (from == device || from.type != DeviceType::cpu || device.type != DeviceType::cpu)
    return tensor.to(device);
  const auto& storage = tensor.storage();
  auto alias = std::make_shared<Storage>(storage->data(), storage->nbytes(), device, [storage] {});
  return Tensor(std::move(alias), tensor.storage_offset(), tensor.shape(), tensor.dtype());
}

void take_settings(nn::Module& module, nn::Module& copy) {
  std::vector<const nn::Module*> originals;
  module.visit([&](const std::string&, nn::Module& below) { originals.push_back(&below); });
  std::size_t next = 0;
  copy.visit(
      [&](const std::string&, nn::Module& below) { below.take_settings(*originals[next++]); });
}

// Parameters go from the first device to the others, gradients back.
void note_links(const std::vector<Device>& devices, const DataParallelOptions& options) {
  if (!options.on_note) return;
  for (const Device device : devices)
    for (const auto& [from, to] : {std::pair(devices[0], device), std::pair(device, devices[0])})
      if (from != to && !backend(device.type).has_link(from, to))
        return options.on_note("[dp] " + without_link(from, to));
}

}  // namespace

Replicas::Replicas(nn::Module& module, std::vector<Device> devices,
                   const DataParallelOptions& options)
    : module_(module),
      devices_(std::move(devices)),
      average_(options.average),
      arena_(nn::pack(module)),
      workers_(devices_.size()),
      clock_(options.timed ? std::make_shared<comm::DeviceClock>() : nullptr) {
  RINGLET_CHECK(!arena_->sharding() && !nn::on_several_devices(module),
                "[dp] the module has a strategy already, or parameters on several devices");
  RINGLET_CHECK(!devices_.empty() && arena_->data().defined(),
                "[dp] needs at least one device and one parameter");
  RINGLET_CHECK_EQ(arena_->data().device(), devices_[0],
                   "[dp] the module lies on the first device");
  arena_->grad();
  comm::pin_devices(devices_);
  workers_.run([&](std::size_t d) {
    if (d > 0) keep_to(devices_[d]);
  });
  modules_.push_back(&module);
  for (const nn::PlacedParameter& slot : arena_->parameters())
    own_.push_back({{slot.parameter.state().get()}, slot.parameter});
  for (std::size_t d = 1; d < devices_.size(); ++d) add_replica(devices_[d]);
  note_links(devices_, options);
}

void Replicas::add_replica(Device device) {
  Replica replica;
  replica.module = nn::clone(module_, device);
  replica.data = seen_from(device, arena_->data());
  replica.grad = zeros({arena_->numel()}, arena_->data().dtype(), device);
  for (const nn::PlacedParameter& slot : arena_->parameters()) {
    const nn::Parameter parameter = replica.module->parameter(slot.name);
    parameter.set_tensor(slot.in(replica.data));
    parameter.set_grad_buffer(slot.in(replica.grad));
    replica.parameters.push_back(parameter);
  }
  for (const auto& [name, tensor] : module_.named_buffers())
    replica.buffers.emplace_back(module_.buffer(name), replica.module->buffer(name));
  modules_.push_back(replica.module.get());
  replicas_.push_back(std::move(replica));
}

double Replicas::seconds_exchanging() const { return clock_ ? clock_->seconds() : 0; }

// ---- forward ------------------------------------------------------------------------------

// The optimizer wrote to the first device.
// The caller's thread is the first device's meanwhile.
void Replicas::on_devices(const std::function<void(std::size_t)>& job) {
  const KeepTo first(devices_[0]);
  struct Running {
    explicit Running(bool& flag) : flag(flag) { flag = true; }
    ~Running() { flag = false; }
    bool& flag;
  } const running(running_);
  workers_.run([&](std::size_t d) {
    try {
      job(d);
    } catch (const std::exception& error) {
      if (on_failure_) on_failure_(str(devices_[d], ": ", error.what()));
      throw;
    }
  });
}

void Replicas::send_parameters() {
  // Code outside that may write to the parameters may also write to the replicas.
  if (arena_->data().storage()->is_shared_outside())
    for (const Replica& replica : replicas_) replica.data.storage()->share_outside();
  if (std::exchange(sent_, arena_->data().version()) == arena_->data().version()) return;
  const comm::DeviceClock::Scope timed(clock_.get(), devices_[0]);
  on_devices([&](std::size_t d) {
    if (d == 0) return;
    Tensor& data = replicas_[d - 1].data;
    if (data.storage() == arena_->data().storage()) return;  // one GPU several times
    if (data.bytes() == arena_->data().bytes()) {
      data.storage()->bump_version();
    } else {
      data.copy_(arena_->data());
    }
  });
}

// Each forward starts from the first device's, which alone are kept.
void Replicas::send_buffers() {
  for (const Replica& replica : replicas_)
    for (const auto& [first, own] : replica.buffers)
      update_buffer(own.tensor(), seen_from(own.device(), first.tensor()));
}

void Replicas::send_settings() {
  for (std::size_t d = 1; d < modules_.size(); ++d) take_settings(module_, *modules_[d]);
  for (const Replica& replica : replicas_)
    for (std::size_t i = 0; i < own_.size(); ++i)
      replica.parameters[i].set_requires_grad(own_[i].state->requires_grad);
}

void Replicas::run(const std::function<void(std::size_t)>& part) {
  send_parameters();
  send_buffers();
  send_settings();
  RandomGenerator generator = default_generator();
  generator.keys = nullptr;  // of one device
  const bool gradients = autograd::grad_enabled();
  on_devices([&](std::size_t d) {
    const GeneratorGuard random(generator);
    std::optional<autograd::NoGrad> no_grad;
    if (!gradients) no_grad.emplace();
    part(d);
  });
}

Variable Replicas::sum(const std::function<Variable(std::size_t)>& part) {
  std::vector<Variable> values(devices_.size());
  std::vector<std::vector<Variable>> used(devices_.size());
  run([&](std::size_t d) {
    const autograd::LeafRecorder recorder;
    if (modules_[d]->training() != module_.training()) modules_[d]->train(module_.training());
    values[d] = part(d);
    used[d] = recorder.leaves();
  });
  std::vector<Tensor> parts;
  for (const Variable& value : values) parts.push_back(value.tensor().to(devices_[0]));
  Tensor sum = empty_like(parts[0]);
  combine(sum, parts);
  take_average(sum);
  if (!autograd::grad_enabled()) return Variable(sum);
  // The inputs are the leaves that the devices' backwards write to.
  const auto backward = [replicas = shared_from_this(), values,
                         averaged = average_ ? outside(used) : std::vector<Variable>()](
                            const Tensor& grad, autograd::Gradients& grads) {
    replicas->backward(values, averaged, grad);
    for (std::size_t i = 0; i < grads.size(); ++i) grads[i].skip();
  };
  return autograd::record("data_parallel", sum, leaves(used), backward);
}

// The first device's leaves, and its parameters that another device's part alone uses.
std::vector<Variable> Replicas::leaves(const std::vector<std::vector<Variable>>& used) const {
  std::vector<Variable> all = used[0];
  std::set<const autograd::VariableState*> states;
  for (const std::vector<Variable>& of_device : used)
    for (const Variable& leaf : of_device) states.insert(leaf.state().get());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (states.contains(own_[i].state)) continue;
    const bool elsewhere = std::ranges::any_of(replicas_, [&](const Replica& replica) {
      return states.contains(replica.parameters[i].state().get());
    });
    if (elsewhere) all.push_back(own_[i].parameter);
  }
  return all;
}

std::vector<Variable> Replicas::outside(const std::vector<std::vector<Variable>>& used) const {
  std::map<const autograd::VariableState*, Variable> found;
  for (const std::vector<Variable>& of_device : used)
    for (const Variable& leaf : of_device) found.emplace(leaf.state().get(), leaf);
  for (const Own& own : own_) found.erase(own.state);
  for (const Replica& replica : replicas_)
    for (const nn::Parameter& parameter : replica.parameters) found.erase(parameter.state().get());
  std::vector<Variable> all;
  for (auto& [state, leaf] : found) all.push_back(std::move(leaf));
  return all;
}

// ---- backward -----------------------------------------------------------------------------

void Replicas::backward(const std::vector<Variable>& values, const std::vector<Variable>& outside,
                        const Tensor& grad) {
  stash_sums();
  std::vector<GradientSum> sums;  // of `outside`
  for (const Variable& leaf : outside)
    sums.emplace_back(GradientSum{leaf.state().get(), leaf.state()->has_grad}).stash();
  try {
    on_devices([&](std::size_t d) {
      if (!values[d].requires_grad()) return;  // the other devices' do
      // Only the first device's leaves are known outside; their hooks are the outer backward's.
      autograd::run_backward(values[d], grad.to(devices_[d]),
                             autograd::BackwardOptions{.retain_graph = false, .fire_hooks = false});
    });
  } catch (...) {
    for (nn::Module* module : modules_) module->zero_grad();  // theirs are incomplete
    for (GradientSum& sum : sums) sum.restore();
    throw;
  }
  for (GradientSum& sum : sums) finish(sum);
  zero_missing();
  if (module_.no_syncs() == 0) reduce();
  for (const Own& own : own_) own.state->partial = own.state->has_grad && !own.reduced;
}

// As on a rank, the first device's next gradient begins with zero, too.
void Replicas::stash_sums() {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (own_[i].state->has_grad) {
      own_[i].stash();
      continue;
    }
    own_[i].forget();
    for (const Replica& replica : replicas_) replica.parameters[i].zero_grad();
  }
}

// A gradient that some device has is zero on each device that does not use the parameter.
void Replicas::zero_missing() {
  std::vector<std::vector<Tensor>> missing(devices_.size());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const auto state_on = [&](std::size_t d) {
      return d == 0 ? own_[i].state : replicas_[d - 1].parameters[i].state().get();
    };
    bool elsewhere = false;
    for (std::size_t d = 1; d < devices_.size(); ++d) elsewhere |= state_on(d)->has_grad;
    if (!elsewhere && !own_[i].state->has_grad) {
      own_[i].restore();
      continue;
    }
    own_[i].state->applied = false;
    for (std::size_t d = 0; d < devices_.size(); ++d)
      if (!std::exchange(state_on(d)->has_grad, true))
        missing[d].push_back(state_on(d)->grad_buffer);
  }
  if (std::ranges::all_of(missing, &std::vector<Tensor>::empty)) return;
  on_devices([&](std::size_t d) {
    for (Tensor& grad : missing[d]) grad.zero_();
  });
}

void Replicas::take_average(Tensor sum) const {
  if (average_) axpby(sum, 1.0 / static_cast<double>(devices_.size()), sum, 0);
}

// The sum of the latest backward is complete.
void Replicas::finish(GradientSum& sum) const {
  if (sum.reduced) return;
  if (!sum.state->has_grad) return sum.restore();
  take_average(sum.state->grad_buffer);
  sum.add_earlier();
}

// Neighbouring parameters that have a gradient on the replicas.
std::vector<Replicas::Range> Replicas::reached() const {
  std::vector<Range> ranges;
  std::size_t i = 0;
  for (const nn::PlacedParameter& slot : arena_->parameters()) {
    if (!replicas_[0].parameters[i++].grad().defined()) continue;
    if (ranges.empty() || ranges.back().end != slot.offset)
      ranges.push_back({slot.offset, slot.offset});
    ranges.back().end += slot.numel();
  }
  return ranges;
}

// The devices' sums meet in pairs, in the order of the tree over them (core/ops/sum_tree.h). On
// CPUs each device's thread adds its part of every range.
void Replicas::reduce() {
  const comm::DeviceClock::Scope timed(clock_.get(), devices_[0]);
  if (!replicas_.empty()) add_replicas();
  for (Own& own : own_) finish(own);
}

void Replicas::add_replicas() {
  const std::vector<Range> ranges = reached();
  const bool shared = std::all_of(devices_.begin(), devices_.end(),
                                  [](Device d) { return d.type == DeviceType::cpu; });
  const std::size_t devices = devices_.size(), parts = shared ? devices : 1;
  const auto grad = [&](std::size_t d) { return d == 0 ? arena_->grad() : replicas_[d - 1].grad; };
  // A part of the sum of device `to` += that of device `from`; by the thread of device `by`.
  const auto add = [&](std::size_t to, std::size_t from, std::size_t by, std::size_t part) {
    Tensor sum = seen_from(devices_[by], grad(to));
    const Tensor other = seen_from(devices_[by], grad(from));
    for (const Range& range : ranges) {
      const auto cut = [&](std::size_t edge) {
        return range.begin + (range.end - range.begin) * static_cast<std::int64_t>(edge) /
                                 static_cast<std::int64_t>(parts);
      };
      Tensor out = sum.slice(cut(part), cut(part + 1));
      axpby(out, 1, other.slice(cut(part), cut(part + 1)), 1);
    }
  };
  for (std::size_t apart = 1; apart < devices; apart *= 2)
    on_devices([&](std::size_t d) {
      for (std::size_t to = 0; to + apart < devices; to += 2 * apart)
        if (shared || d == to) add(to, to + apart, d, shared ? d : 0);
    });
  for (const Replica& replica : replicas_)
    for (const nn::Parameter& parameter : replica.parameters) parameter.zero_grad();
}

DataParallel::DataParallel(nn::Module& module, std::vector<Device> devices, const Options& options)
    : module_(module), replicas_(std::make_shared<Replicas>(module, std::move(devices), options)) {}

Variable DataParallel::sum(const Part& part) {
  return replicas_->sum([&](std::size_t d) { return part(*replicas_->modules()[d], d); });
}

double DataParallel::seconds_exchanging() const { return replicas_->seconds_exchanging(); }

}  // namespace ringlet::train
