// Lesson 13: FSDP by hand. A layer is gathered, used and released; its gradient is sharded, too.
#include <doctest/doctest.h>

#include "in_rank_order.h"

using namespace ringlet;
namespace {
constexpr std::int64_t kSide = 128, kShard = kSide * kSide / 2;

struct Part : nn::Layer<Part> {  // a unit: the library gathers it as a whole
  nn::Parameter weight = register_parameter("weight", normal({kSide, kSide}, 0, 0.1));
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) { return autograd::tanh(autograd::linear(x, weight)); }
};
struct Three : nn::Layer<Three> {
  std::shared_ptr<Part> part(const char* n) { return register_module(n, std::make_shared<Part>()); }
  std::vector<std::shared_ptr<Part>> parts{part("0"), part("1"), part("2")};
  Variable forward(const Variable& x) { return (*parts[2])((*parts[1])((*parts[0])(x))); }
};
}  // namespace

TEST_CASE("13 sharded layers") {
  const comm::Pieces pieces = comm::even_pieces(kSide * kSide, 2);
  comm::launch(
      [&](const comm::Group& world) {
        const std::int64_t begin = world.rank() * kShard;
        manual_seed(13);
        Three three;
        std::vector<Tensor> shards, gradients(3), inputs{full({4, kSide}, world.rank() + 1)};
        for (const auto& part : three.parts)
          shards.push_back(part->weight.tensor().view({-1}).slice(begin, begin + kShard).clone());
        std::weak_ptr<Storage> gathered;
        const auto use = [&](const char* moment, int layer) {
          CHECK(gathered.expired());  // the layer before this one is released
          Tensor whole = empty({kSide * kSide});
          gathered = whole.storage();
          world.all_gather(whole, shards[layer], pieces).wait();
          if (world.rank() == 0)
            std::cout << moment << " of layer " << layer << " "
                      << std::string(3 * shards[0].nbytes() / 4096, '.')
                      << std::string(whole.nbytes() / 4096, '#') << " bytes alive\n";
          const Variable x(inputs[layer], true), weight(whole.view({kSide, kSide}), true);
          return std::tuple(autograd::tanh(autograd::linear(x, weight)), x, weight);
        };  // its results own the layer: it is released with them
        for (int i = 0; i < 3; ++i) inputs.push_back(std::get<0>(use("forward ", i)).tensor());
        Tensor grad = ones(inputs[3].shape());  // the loss is the sum of the outputs
        for (int i = 2; i >= 0; --i) {
          const auto [y, x, weight] = use("backward", i);  // computes y again
          y.backward(grad);
          grad = x.grad();
          gradients[i] = empty({kShard});
          world.reduce_scatter(gradients[i], weight.grad().view({-1}), pieces).wait();
        }
        const train::FullySharded fsdp(three, world);  // the library's form
        autograd::sum(three(Variable(inputs[0]))).backward();
        for (int i = 0; i < 3; ++i)
          CHECK(max(abs(three.arena()->local_slices().at(i).grad - gradients[i])).item() < 1e-4f);
      },
      2);
}
