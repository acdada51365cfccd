// Lesson 17: a pipeline. Each rank has some of the layers, a stage. The rows of a step pass the
// stages in parts, micro-batches, so that all stages compute at the same time.
#include <doctest/doctest.h>

#include "in_rank_order.h"

using namespace ringlet;

namespace {

using Variables = train::Pipeline::Variables;
constexpr int kStages = 4, kMicroBatches = 8;
constexpr std::size_t kLayers = 8;
constexpr std::int64_t kRows = 6, kWidth = 16;

/// The whole model and the rows of a step.
struct Stack {
  std::vector<std::shared_ptr<nn::Linear>> layers;
  Tensor micro_batches;
  Stack() {
    manual_seed(12);
    while (layers.size() < kLayers) layers.push_back(std::make_shared<nn::Linear>(kWidth, kWidth));
    micro_batches = normal({kMicroBatches, kRows, kWidth});
  }
  /// A stage: layers [begin, end). After the last one comes the micro-batch's share of the loss.
  Variables forward(std::size_t begin, std::size_t end, int k, const Variables& inputs) const {
    Variable x = begin == 0 ? Variable(micro_batches[k]) : inputs[0];
    for (std::size_t i = begin; i < end; ++i) x = autograd::tanh((*layers[i])(x));
    return {end == kLayers ? autograd::sum(autograd::square(x)) : x};
  }
};

std::vector<train::Pipeline::Message> inputs_of(int, int) { return {{{kRows, kWidth}}}; }

/// A row for each rank, a cell for each unit of time. F is a forward, B a backward of two units; I
/// and W are its halves, the gradients of input and weights. Dots are the bubble.
void draw(const train::PipelineTimes& times) {
  for (const std::vector<train::TimedAction>& actions : times.ranks) {
    std::string row;
    for (double now = 0; now < times.makespan; ++now) row += ".  ";
    for (const auto& [action, start, end] : actions)
      row.replace(3 * static_cast<std::size_t>(start), end - start > 1 ? 5 : 2,
                  str(letter(action.what), action.micro_batch, end - start > 1 ? " --" : ""));
    std::cout << row << "\n";
  }
}

}  // namespace

TEST_CASE("17 pipeline") {
  // A schedule is data: each rank's computations in order. A simulation shows when ranks wait.
  const train::PipelineShape shape{kStages, kMicroBatches};
  const auto show = [&](train::PipelineKind kind, double idle) {
    const train::PipelineTimes times = simulate_pipeline(make_pipeline(kind, shape), shape);
    std::cout << train::kPipelines(kind) << ": the bubble is " << 100 * times.bubble()
              << " %; rank 0 keeps " << times.peak_activations[0] << " micro-batches\n";
    draw(times);
    CHECK(times.bubble() == doctest::Approx(idle / (idle + 3 * kMicroBatches)));
  };
  show(train::PipelineKind::gpipe, 3 * (kStages - 1));  // units: F, I and W are one each
  show(train::PipelineKind::one_f_one_b, 3 * (kStages - 1));
  show(train::PipelineKind::zero_bubble, kStages - 1);

  // One device adds the gradients of the same micro-batches.
  const Stack whole;
  double loss = 0;
  for (int k = 0; k < kMicroBatches; ++k) {
    const Variable share = whole.forward(0, kLayers, k, {})[0];
    share.backward();
    loss += share.item<double>();
  }
  std::vector<std::vector<float>> expected;
  for (const auto& layer : whole.layers) expected.push_back(layer->weight.grad().to_vector());
  comm::launch(
      [&](const comm::Group& world) {
        const Stack stack;
        const auto rank = static_cast<std::size_t>(world.rank());
        const std::size_t begin = rank * kLayers / kStages, end = begin + kLayers / kStages;
        train::Pipeline pipeline(
            world, {[&](int k, const Variables& x) { return stack.forward(begin, end, k, x); }},
            inputs_of, {.micro_batches = kMicroBatches});
        CHECK(pipeline.run() == loss);
        for (std::size_t i = begin; i < end; ++i)  // the same bits
          CHECK(stack.layers[i]->weight.grad().to_vector() == expected[i]);
        // A message for each neighbour and micro-batch; the last stage sends the loss besides.
        const bool last = rank == kStages - 1;
        const std::size_t messages = (rank == 0 || last ? 1 : 2) * kMicroBatches;
        const std::size_t sent = world.stats().bytes_sent - (last ? 3 * sizeof(double) : 0);
        CHECK(sent == messages * kRows * kWidth * sizeof(float));
        print_in_rank_order(world, str("rank ", rank, ": layers ", begin, " to ", end - 1, ", ",
                                       messages, " messages, ", sent, " bytes"));
      },
      kStages);
}
