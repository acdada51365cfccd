// Lesson 10: DDP by hand. The first bucket of gradients is summed while backward computes the next.
#include <doctest/doctest.h>

#include "in_rank_order.h"

using namespace ringlet;

namespace {
using Layers = std::vector<std::shared_ptr<nn::Linear>>;
// Backward completes gradients from the last layer to the first: bucket 0 has the last three.
void backward_in_buckets(const Layers& layers, const Variable& loss, const comm::Group& world) {
  std::vector<Tensor> gradients[2];
  comm::Work sums[2];
  std::string order, pictures[2];  // a column for each gradient: [ is enqueued, ] is complete
  std::vector<autograd::HookHandle> hooks;  // called when a gradient is complete
  for (std::size_t i = 0; i < layers.size(); ++i)
    hooks.push_back(layers[i]->weight.register_ready_hook([&, i] {
      const int bucket = i < 3 ? 1 : 0;
      order += str(i);
      for (const int b : {0, 1}) pictures[b] += gradients[b].size() < 3 ? ' ' : '=';
      gradients[bucket].push_back(layers[i]->weight.grad());
      if (gradients[bucket].size() < 3) return;
      sums[bucket] = world.all_reduce(gradients[bucket]);  // returns immediately
      pictures[bucket].back() = '[';
    }));
  loss.backward();
  for (const int b : {0, 1}) sums[b].wait();
  if (world.rank() == 0)
    std::cout << "backward of layer  " << order << "\nsum of bucket 0    " << pictures[0]
              << "]\nsum of bucket 1    " << pictures[1] << "]\n";
}

struct Net : nn::Layer<Net> {
  Layers layers;
  Net() {
    manual_seed(10);
    for (int i = 0; i < 6; ++i)
      layers.push_back(register_module(str(i), std::make_shared<nn::Linear>(64, 64, false)));
  }
  Variable forward(Variable x) {
    for (const auto& layer : layers) x = autograd::tanh((*layer)(x));
    return x;
  }
};
}  // namespace

TEST_CASE("10 buckets") {
  comm::launch(
      [](const comm::Group& world) {
        const Variable x(full({4, 64}, world.rank() + 1));  // another batch on each rank
        Net by_hand, other;
        backward_in_buckets(by_hand.layers, autograd::sum(by_hand(x)), world);
        train::DistributedDataParallel ddp(other, world);  // the library's form
        autograd::sum(other(x)).backward();
        for (int i = 0; i < 6; ++i)  // the same bits
          CHECK(by_hand.layers[i]->weight.grad().to_vector() ==
                other.layers[i]->weight.grad().to_vector());
      },
      2);
}
