#include "ringlet/nn/place.h"

#include <doctest/doctest.h>

#include "../second_device.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/nn/linear.h"
#include "ringlet/nn/name_pattern.h"
#include "ringlet/nn/pack.h"

using namespace ringlet;
using namespace ringlet::nn;

namespace {

/// Four linear layers; the input of each is copied to its device, the output back.
struct Chain final : Layer<Chain> {
  Chain() {
    const GeneratorGuard random({.seed = 3});
    for (int i = 0; i < 4; ++i)
      layers.push_back(register_module(str("layer.", i), std::make_shared<Linear>(5, 5)));
  }
  Variable forward(const Variable& input) {
    Variable x = input;
    for (const auto& layer : layers) x = autograd::tanh((*layer)(autograd::to(x, layer->device())));
    return autograd::to(x, input.device());
  }
  std::vector<std::shared_ptr<Linear>> layers;
};

std::vector<Device> devices_of(const Chain& chain) {
  std::vector<Device> devices;
  for (const auto& layer : chain.layers) devices.push_back(layer->device());
  return devices;
}

}  // namespace

TEST_CASE("a pattern is the last parts of a name; '*' is any part, 0-5 any number from 0 to 5") {
  CHECK(names_layer("layer.*.attn", "encoder.layer.3.attn"));
  CHECK(names_layer("layer.0-5", "encoder.layer.5"));
  CHECK(names_layer("layer.10-12.attn", "layer.11.attn"));
  CHECK_FALSE(names_layer("layer.0-5", "encoder.layer.6"));
  CHECK_FALSE(names_layer("layer.0-5", "layer.x"));
  CHECK_FALSE(names_layer("layer.0-", "layer.0"));
  CHECK_FALSE(names_layer("encoder.layer.0-5", "layer.3"));
}

TEST_CASE("layers on two devices have the results and gradients of one") {
  const Device here = default_device(), there = second_device();
  Chain whole, placed;
  place(placed, {{"layer.*", there}, {"layer.0-1", here}});
  CHECK(devices_of(placed) == std::vector{here, here, there, there});
  const Variable x(normal({3, 5}), true), y(x.tensor(), true);
  autograd::sum(whole(x)).backward();
  const Variable sum = autograd::sum(placed(y));
  CHECK_EQ(sum.device(), here);
  sum.backward();
  CHECK(y.grad().to_vector() == x.grad().to_vector());
  for (std::size_t i = 0; i < whole.layers.size(); ++i) {
    CHECK_EQ(placed.layers[i]->weight.grad().device(), placed.layers[i]->device());
    CHECK(placed.layers[i]->weight.grad().to_vector() ==
          whole.layers[i]->weight.grad().to_vector());
  }
}

TEST_CASE("a pattern of no module and a packed module are refused, and nothing is moved") {
  Chain chain;
  const std::vector<Device> before = devices_of(chain);
  CHECK_THROWS_WITH_AS(place(chain, {{"layer.0", second_device()}, {"layr.1", second_device()}}),
                       "[module] no module 'layr.1'; near: layer.1", Error);
  pack(chain);
  CHECK_THROWS_WITH_AS(place(chain, {{"layer.0", second_device()}}),
                       "[module] weight lies in an arena; move a module before it is packed",
                       Error);
  CHECK(devices_of(chain) == before);
}
