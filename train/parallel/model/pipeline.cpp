#include "ringlet/train/parallel/model/pipeline.h"

#include <algorithm>
#include <typeinfo>

#include "ringlet/autograd/node.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/train/parallel/model/pipeline_schedule.h"

namespace ringlet::train {
namespace {

/// One root for a backward from several outputs, by the gradient of each.
Variable joined(const std::vector<Variable>& outputs, std::vector<Tensor> grads) {
  return autograd::record("stage", ones({1}), outputs,
                          [grads = std::move(grads)](const Tensor&, autograd::Gradients& to) {
                            for (std::size_t i = 0; i < grads.size(); ++i)
                              if (to[i].needed()) to[i].set(grads[i]);
                          });
}

}  // namespace

void Pipeline::check(PipelineKind kind, const PipelineShape& shape, bool whole_loss) {
  if (whole_loss && kind != PipelineKind::gpipe)
    fail_setting(
        "pipeline_schedule", ' ', kPipelines(kind),
        ": a loss over the rows of all micro-batches waits for all forwards; expected gpipe");
  make_pipeline(kind, shape);
}

Pipeline::Pipeline(comm::Group group, std::vector<Forward> chunks, Inputs inputs, Options options)
    : group_(std::move(group)),
      chunks_(std::move(chunks)),
      inputs_(std::move(inputs)),
      options_(std::move(options)),
      shape_{group_.size(), options_.micro_batches, static_cast<int>(chunks_.size())} {
  check(options_.kind, shape_, options_.whole_loss != nullptr);
  const PipelineSchedule schedule = make_pipeline(options_.kind, shape_);
  simulate_pipeline(schedule, shape_);  // throws if ranks would wait for each other
  actions_ = schedule[static_cast<std::size_t>(group_.rank())];
}

double Pipeline::run() {
  live_.clear();  // of a step that threw
  here_.clear();
  sends_.clear();
  losses_.clear();
  whole_grads_.clear();
  auto no_sync = options_.module ? std::make_unique<NoSync>(*options_.module) : nullptr;
  const PipelineAction* const reducing = last_reaching();
  for (const PipelineAction& action : actions_) {
    if (&action == reducing) no_sync.reset();
    const auto scope = options_.scope ? options_.scope(action, stage_of(action)) : nullptr;
    named(action, [&] { compute(action); });
  }
  for (const auto& [action, work] : sends_) named(action, [&work = work] { work.wait(); });
  sends_.clear();
  double sum = 0;
  for (const Tensor& loss : losses_) sum += loss.to_vector<double>()[0];
  Tensor total = full({1}, sum, DType::f64, Device{});
  group_.broadcast(total, rank_of(shape_.stages() - 1)).wait();
  return total.to_vector<double>()[0];
}

/// The last backward of this rank that reaches parameters; null if none does.
const PipelineAction* Pipeline::last_reaching() const {
  const auto found = std::find_if(actions_.rbegin(), actions_.rend(), [&](const auto& action) {
    return !options_.trains || options_.trains(stage_of(action));
  });
  return found == actions_.rend() ? nullptr : &*found;
}

/// An error that leaves it names the micro-batch.
void Pipeline::named(const PipelineAction& action, const std::function<void()>& work) const {
  try {
    work();
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) throw;  // an InputError, or a type of the caller's
    fail(error.what(), " (", action.what == Computation::forward ? "forward" : "backward",
         " of micro-batch ", action.micro_batch, ", stage ", stage_of(action), ")");
  }
}

void Pipeline::compute(const PipelineAction& action) {
  const int stage = stage_of(action), k = action.micro_batch;
  switch (action.what) {
    case Computation::forward:
      return forward(stage, k);
    case Computation::input_gradient:
      return input_gradient(stage, k, /*split=*/true);
    case Computation::weight_gradient:
      live_.at({stage, k}).weights.run();
      break;
    case Computation::backward:
      input_gradient(stage, k, /*split=*/false);
      break;
  }
  live_.erase({stage, k});
}

void Pipeline::forward(int stage, int micro_batch) {
  Live& live = live_[{stage, micro_batch}];
  if (stage > 0)
    for (const Message& message : inputs_(stage, micro_batch))
      live.inputs.emplace_back(receive(activations, message, stage - 1), true);
  live.outputs = chunks_[static_cast<std::size_t>(stage / shape_.ranks)](micro_batch, live.inputs);
  if (stage + 1 == shape_.stages()) {
    if (!options_.whole_loss) losses_.push_back(live.outputs.at(0).tensor());
    return;
  }
  const std::vector<Message> messages = inputs_(stage + 1, micro_batch);
  RINGLET_CHECK_EQ(live.outputs.size(), messages.size(), "[pipeline] outputs of stage ", stage);
  for (std::size_t i = 0; i < messages.size(); ++i)
    send(activations, live.outputs[i].tensor(), messages[i].dtype, stage + 1, micro_batch);
}

/// The variable from which the backward of a stage begins.
Variable Pipeline::root(int stage, int micro_batch) {
  const Variables& outputs = live_.at({stage, micro_batch}).outputs;
  const bool last = stage + 1 == shape_.stages();
  if (last && !options_.whole_loss) return outputs.at(0);
  std::vector<Tensor> grads;
  if (!last) {
    for (const Variable& output : outputs)
      grads.push_back(receive(gradients, {output.shape(), output.dtype()}, stage + 1));
    return joined(outputs, std::move(grads));
  }
  if (whole_grads_.empty()) {
    std::vector<Tensor> all;
    for (const auto& [at, live] : live_) all.push_back(live.outputs.at(0).tensor());
    losses_.push_back(options_.whole_loss(all, whole_grads_));
  }
  return joined(outputs, {whole_grads_.at(static_cast<std::size_t>(micro_batch))});
}

// Sends the gradients of the stage's inputs. With `split` those of its weights come later.
void Pipeline::input_gradient(int stage, int micro_batch, bool split) {
  const Variable from = root(stage, micro_batch);
  Live& live = live_.at({stage, micro_batch});
  if (!from.requires_grad()) {  // a first stage that is frozen
    live.weights = {};
  } else if (split) {
    live.weights = autograd::backward_to(live.inputs, from);
  } else {
    from.backward();
  }
  for (const Variable& input : live.inputs)
    send(gradients, input.grad(), input.dtype(), stage - 1, micro_batch);
  live.inputs.clear();
  live.outputs.clear();
}

/// To `stage`.
void Pipeline::send(Lane lane, const Tensor& message, DType dtype, int stage, int micro_batch) {
  RINGLET_CHECK(message.defined() && message.dtype() == dtype, "[pipeline] micro-batch ",
                micro_batch, " has no ", dtype, " message to stage ", stage);
  if (rank_of(stage) == group_.rank()) {
    here_[{lane, stage}].push_back(message);
  } else {
    const bool forward = lane == activations;
    const int from = forward ? stage - 1 : stage + 1;
    sends_.emplace_back(PipelineAction{forward ? Computation::forward : Computation::input_gradient,
                                       from / shape_.ranks, micro_batch},
                        group_.send(message, rank_of(stage), lane));
  }
}

/// From `stage`.
Tensor Pipeline::receive(Lane lane, const Message& message, int stage) {
  if (rank_of(stage) == group_.rank()) {
    std::vector<Tensor>& sent = here_[{lane, stage + (lane == activations ? 1 : -1)}];
    const Tensor first = sent.front();
    sent.erase(sent.begin());
    return first;
  }
  const Tensor received = empty(message.shape, message.dtype, options_.device);
  group_.recv(received, rank_of(stage), lane).wait();
  return received;
}

}  // namespace ringlet::train
