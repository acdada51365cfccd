#include "ringlet/train/parallel/data_parallel.h"

#include <algorithm>

#include "ringlet/autograd/engine.h"
#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/random.h"
#include "ringlet/train/loader.h"
#include "ringlet/train/parallel/workers.h"

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

/// Rows of each part: what the loader decided, or near-equal in tokens.
std::vector<std::vector<std::size_t>> deal(const models::PackedBatch& batch, std::size_t parts) {
  if (batch.device_rows.size() == parts) {
    std::vector<std::vector<std::size_t>> dealt(parts);
    std::size_t row = 0;
    for (std::size_t part = 0; part < parts; ++part)
      for (std::int64_t i = 0; i < batch.device_rows[part]; ++i) dealt[part].push_back(row++);
    return dealt;
  }
  const auto starts = batch.cu_seqlens.to_vector<std::int64_t>();
  const auto lengths = batch.lengths.defined() ? batch.lengths.to_vector<std::int64_t>()
                                               : std::vector<std::int64_t>();
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(batch.rows));
  for (std::size_t s = 0; s + 1 < starts.size(); ++s)
    tokens[s % tokens.size()] += lengths.empty() ? starts[s + 1] - starts[s] : lengths[s];
  return deal_rows(tokens, parts);
}

}  // namespace

class DataParallel::Replicas final : public models::LossRunner,
                                     public std::enable_shared_from_this<Replicas> {
 public:
  Replicas(models::Loss& loss, std::vector<Device> devices)
      : loss_(loss),
        devices_(std::move(devices)),
        arena_(nn::pack(loss)),
        workers_(devices_.size()) {
    RINGLET_CHECK(!devices_.empty() && arena_->data().defined(),
                  "[dp] needs at least one device and one parameter");
    RINGLET_CHECK(!arena_->sharding(), "[dp] the loss has a strategy already");
    RINGLET_CHECK_EQ(arena_->data().device(), devices_[0],
                     "[dp] the loss lies on the first device");
    arena_->grad();
    losses_.push_back(&loss);
    for (const nn::Parameter& parameter : loss.parameters())
      own_.push_back({parameter.state().get(), false, {}});
    for (std::size_t d = 1; d < devices_.size(); ++d) add_replica(devices_[d]);
  }

  // ---- forward ----
  Variable run(const models::PackedBatch& batch) override;

  // ---- backward ----
  void backward(const std::vector<Variable>& values, const Tensor& grad) {
    for (Own& own : own_) set_sum_aside(own);
    try {
      workers_.run([&](std::size_t d) {
        // Only the first device's leaves are known outside; their hooks are the outer backward's.
        autograd::run_backward(
            values[d], grad.to(devices_[d]),
            autograd::BackwardOptions{.retain_graph = false, .fire_hooks = false});
      });
    } catch (...) {
      forget_gradients();
      throw;
    }
    for (Own& own : own_) take_back(own);
    if (*paused == 0) reduce();
  }

  models::Loss& loss() { return loss_; }
  const std::shared_ptr<int> paused = std::make_shared<int>(0);

 private:
  struct Replica {
    std::shared_ptr<models::Loss> loss;
    std::vector<nn::Parameter> parameters;  // in the order of the arena
    Tensor data;                            // (arena) on its device
    Tensor grad;                            // (arena) on its device
  };
  struct Range {
    std::int64_t begin, end;  // elements of the arena
  };
  /// A parameter on the first device.
  struct Own {
    autograd::VariableState* state;
    bool reduced = false;  // its gradient is the sum over all devices
    Tensor earlier;        // such a sum of an earlier backward, which the next one is added to
  };

  // As on a rank, the first device's next gradient begins with zero, too.
  static void set_sum_aside(Own& own) {
    if (!own.state->has_grad) own.earlier = Tensor();  // zero_grad since
    if (!std::exchange(own.reduced, false) || !own.state->has_grad) return;
    own.earlier = own.state->grad_buffer.clone();
    own.state->has_grad = false;
  }
  // Of a parameter that the backward did not reach.
  static void take_back(Own& own) {
    if (own.state->has_grad || !own.earlier.defined()) return;
    own.earlier = Tensor();
    own.state->has_grad = own.reduced = true;
  }
  static void add_earlier(Own& own) {
    own.reduced = own.state->has_grad;
    if (own.earlier.defined()) axpby(own.state->grad_buffer, 1, own.earlier, 1);
    own.earlier = Tensor();
  }

  // What a backward that threw has left is half of something.
  void forget_gradients() {
    for (models::Loss* loss : losses_) loss->zero_grad();
  }

  void add_replica(Device device) {
    Replica replica;
    replica.loss = std::dynamic_pointer_cast<models::Loss>(loss_.clone(device));
    RINGLET_CHECK(replica.loss, "[dp] blank_copy of a ", loss_.kind(), " is no loss");
    replica.data = seen_from(device, arena_->data());
    replica.grad = zeros({arena_->numel()}, arena_->data().dtype(), device);
    for (const nn::Unit& unit : arena_->units()) {
      for (const nn::Slot& slot : unit.slots) {
        const nn::Parameter parameter = replica.loss->parameter(slot.name);
        const auto part = [&](const Tensor& of) {
          return of.slice(slot.offset, slot.offset + slot.numel()).view(slot.parameter.shape());
        };
        parameter.set_tensor(part(replica.data));
        parameter.set_grad_buffer(part(replica.grad));
        replica.parameters.push_back(parameter);
      }
    }
    losses_.push_back(replica.loss.get());
    replicas_.push_back(std::move(replica));
  }

  // The optimizer wrote to the first device.
  void send_parameters() {
    if (std::exchange(sent_, arena_->data().version()) == arena_->data().version()) return;
    workers_.run([&](std::size_t d) {
      if (d == 0) return;
      Tensor& data = replicas_[d - 1].data;
      if (data.bytes() == arena_->data().bytes()) {
        data.storage()->bump_version();
      } else {
        data.copy_(arena_->data());
      }
    });
  }

  /// Neighbouring parameters that have a gradient on the replicas.
  std::vector<Range> reached() const {
    std::vector<Range> ranges;
    std::size_t i = 0;
    for (const nn::Unit& unit : arena_->units()) {
      for (const nn::Slot& slot : unit.slots) {
        if (!replicas_[0].parameters[i++].grad().defined()) continue;
        if (ranges.empty() || ranges.back().end != slot.offset)
          ranges.push_back({slot.offset, slot.offset});
        ranges.back().end += slot.numel();
      }
    }
    return ranges;
  }

  // Each device's thread adds up its part of every range, in the order of the devices.
  void reduce() {
    if (!replicas_.empty()) add_replicas();
    for (Own& own : own_) add_earlier(own);
  }

  void add_replicas() {
    const std::vector<Range> ranges = reached();
    const bool shared = std::all_of(devices_.begin(), devices_.end(),
                                    [](Device d) { return d.type == DeviceType::cpu; });
    const std::size_t parts = shared ? devices_.size() : 1;
    workers_.run([&](std::size_t d) {
      if (d >= parts) return;
      Tensor sum = seen_from(devices_[d], arena_->grad());
      for (const Replica& replica : replicas_) {
        const Tensor grad = seen_from(devices_[d], replica.grad);
        for (const Range& range : ranges) {
          const auto cut = [&](std::size_t part) {
            return range.begin + (range.end - range.begin) * static_cast<std::int64_t>(part) /
                                     static_cast<std::int64_t>(parts);
          };
          Tensor out = sum.slice(cut(d), cut(d + 1));
          axpby(out, 1, grad.slice(cut(d), cut(d + 1)), 1);
        }
      }
    });
    for (const Replica& replica : replicas_)
      for (const nn::Parameter& parameter : replica.parameters) parameter.zero_grad();
  }

  models::Loss& loss_;
  std::vector<Device> devices_;
  std::shared_ptr<nn::Arena> arena_;
  std::vector<Replica> replicas_;      // of the devices after the first
  std::vector<models::Loss*> losses_;  // one per device
  std::vector<Own> own_;
  Workers workers_;
  std::uint64_t sent_ = 0;
};

namespace {

/// Backward of a value that came from several devices. Its inputs are the leaves that their
/// backwards write to.
template <class Replicas>
struct ParallelNode final : autograd::Node {
  std::shared_ptr<Replicas> replicas;
  std::vector<Variable> values;  // one per device
  const char* name() const override { return "data_parallel"; }
  void backward(const Tensor& grad, autograd::Gradients&) override {
    replicas->backward(values, grad);
  }
};

}  // namespace

Variable DataParallel::Replicas::run(const models::PackedBatch& batch) {
  if (!autograd::grad_enabled()) return loss_.run_here(batch);
  send_parameters();
  const auto dealt = deal(batch, devices_.size());
  const Generator generator = default_generator();
  std::vector<Variable> values(devices_.size());
  std::vector<Variable> leaves;
  workers_.run([&](std::size_t d) {
    const GeneratorGuard random(generator);
    const autograd::LeafRecorder recorder;
    if (losses_[d]->training() != loss_.training()) losses_[d]->train(loss_.training());
    values[d] = losses_[d]->run_here(batch.select(dealt[d]).to(devices_[d]));
    if (d == 0) leaves = recorder.leaves();
  });
  Tensor sum = values[0].tensor().clone();
  for (std::size_t d = 1; d < values.size(); ++d)
    axpby(sum, 1, values[d].tensor().to(devices_[0]), 1);
  return autograd::record<ParallelNode<Replicas>>(sum, leaves, [&](ParallelNode<Replicas>& node) {
    node.replicas = shared_from_this();
    node.values = std::move(values);
  });
}

DataParallel::DataParallel(models::Loss& loss, std::vector<Device> devices)
    : replicas_(std::make_shared<Replicas>(loss, std::move(devices))) {
  loss.set_runner(replicas_.get());
}

DataParallel::~DataParallel() { replicas_->loss().set_runner(nullptr); }
const std::shared_ptr<int>& DataParallel::paused() const { return replicas_->paused; }

}  // namespace ringlet::train
