#include "ringlet/train/parallel/pipeline.h"

#include "ringlet/core/base/error.h"
#include "ringlet/train/parallel/pipeline_simulation.h"

namespace ringlet::train {

Pipeline::Pipeline(comm::Group group, std::vector<Forward> chunks, InputShape input_shape,
                   Options options)
    : group_(std::move(group)),
      chunks_(std::move(chunks)),
      input_shape_(std::move(input_shape)),
      options_(options),
      shape_{group_.size(), options.micro_batches, static_cast<int>(chunks_.size())} {
  const PipelineSchedule schedule = make_pipeline(options_.kind, shape_);
  simulate_pipeline(schedule, shape_);  // throws if ranks would wait for each other
  actions_ = schedule[static_cast<std::size_t>(group_.rank())];
}

double Pipeline::run() {
  live_.clear();
  losses_.clear();
  for (const PipelineAction& action : actions_) execute(action);
  for (const comm::Work& work : sends_) work.wait();
  sends_.clear();
  double sum = 0;
  for (const Tensor& loss : losses_) sum += loss.to_vector<double>()[0];
  Tensor total = full({1}, sum, DType::f64, Device{});
  group_.broadcast(total, rank_of(shape_.stages() - 1)).wait();
  return total.to_vector<double>()[0];
}

void Pipeline::execute(const PipelineAction& action) {
  const int stage = action.chunk * shape_.ranks + group_.rank(), k = action.micro_batch;
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
    live.input = Variable(
        receive(activations, input_shape_(stage, micro_batch), stage - 1, micro_batch), true);
  live.output = chunks_[static_cast<std::size_t>(stage / shape_.ranks)](micro_batch, live.input);
  if (stage + 1 == shape_.stages()) {
    losses_.push_back(live.output.tensor());
  } else {
    send(activations, live.output.tensor(), stage + 1, micro_batch);
  }
}

// Sends the gradient of the stage's input. With `split` those of its weights come later.
void Pipeline::input_gradient(int stage, int micro_batch, bool split) {
  Live& live = live_.at({stage, micro_batch});
  Tensor grad;
  if (stage + 1 < shape_.stages())
    grad = receive(gradients, live.output.shape(), stage + 1, micro_batch);
  if (split) {
    live.weights = autograd::backward_to(live.input, live.output, grad);
  } else {
    live.output.backward(grad);
  }
  if (stage > 0) send(gradients, live.input.grad(), stage - 1, micro_batch);
  live.input = live.output = {};
}

/// To `stage`.
void Pipeline::send(Lane lane, const Tensor& message, int stage, int micro_batch) {
  RINGLET_CHECK(message.defined() && message.dtype() == options_.dtype, "[pipeline] micro-batch ",
                micro_batch, " has no ", options_.dtype, " message to stage ", stage);
  if (rank_of(stage) == group_.rank()) {
    here_[{lane, stage}].push_back(message);
  } else {
    sends_.push_back(group_.send(message, rank_of(stage), lane));
  }
}

/// From `stage`.
Tensor Pipeline::receive(Lane lane, const Shape& shape, int stage, int micro_batch) {
  if (rank_of(stage) == group_.rank()) {
    std::vector<Tensor>& sent = here_[{lane, stage + (lane == activations ? 1 : -1)}];
    const Tensor message = sent.front();
    sent.erase(sent.begin());
    return message;
  }
  try {
    const Tensor message = empty(shape, options_.dtype, options_.device);
    group_.recv(message, rank_of(stage), lane).wait();
    return message;
  } catch (const Error& error) {
    fail(error.what(), " (", lane == activations ? "activations" : "gradients", " of stage ", stage,
         ", micro-batch ", micro_batch, ")");
  }
}

}  // namespace ringlet::train
