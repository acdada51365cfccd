// Training of a module on several devices of one process.
#include <doctest/doctest.h>

#include "../../second_device.h"
#include "ringlet/ringlet.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// A unit of two layers.
struct Block final : nn::Layer<Block> {
  const char* kind() const override { return "Block"; }
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) {
    return autograd::tanh((*second)(autograd::tanh((*first)(x))));
  }
  std::shared_ptr<nn::Linear> first =
      register_module("first", std::make_shared<nn::Linear>(70, 70));
  std::shared_ptr<nn::Linear> second =
      register_module("second", std::make_shared<nn::Linear>(70, 70));
};

/// Five blocks; the squares of the last output are the loss.
struct Blocks final : nn::Layer<Blocks> {
  explicit Blocks(const std::vector<nn::Place>& places = {}) {
    const GeneratorGuard random({.seed = 3});
    for (int i = 0; i < 5; ++i)
      blocks.push_back(register_module(str("block.", i), std::make_shared<Block>()));
    nn::place(*this, places);
  }
  Variable forward(const Variable& input) {
    Variable x = input;
    for (const auto& block : blocks) x = (*block)(autograd::to(x, block->device()));
    return autograd::sum(autograd::square(x));
  }
  std::vector<std::shared_ptr<Block>> blocks;
};

using Bits = std::vector<std::vector<float>>;

Bits values_of(const nn::Module& module) {
  Bits all;
  for (const nn::Parameter& one : module.parameters()) all.push_back(one.tensor().to_vector());
  return all;
}

void train_steps(Blocks& model, Optimizer& optimizer, int steps) {
  for (int step = 0; step < steps; ++step) {
    const GeneratorGuard random({.seed = 5, .step = static_cast<std::uint64_t>(step)});
    optimizer.zero_grad();
    model(Variable(normal({4, 70}))).backward();
    optimizer.step();
  }
}

std::vector<nn::Place> two_devices() {
  return {{"block.1-2", second_device()}, {"block.4", second_device()}};
}

}  // namespace

TEST_CASE("steps over several devices have the bits of one: norm, values and moments") {
  const AdamWOptions options{.lr = 1e-2, .weight_decay = 0.1, .max_grad_norm = 0.5};
  Blocks whole, placed(two_devices());
  AdamW expected(whole, options), optimizer(placed, options);
  train_steps(whole, expected, 3);
  train_steps(placed, optimizer, 3);
  CHECK(optimizer.grad_norm() > options.max_grad_norm);
  CHECK_EQ(optimizer.grad_norm(), expected.grad_norm());
  CHECK(values_of(placed) == values_of(whole));
  CHECK_EQ(placed.blocks[4]->device(), second_device());
  const auto states = optimizer.state(), wanted = expected.state();
  REQUIRE_EQ(states.size(), wanted.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    CAPTURE(wanted[i].name);
    CHECK_EQ(states[i].name, wanted[i].name);
    CHECK_EQ(states[i].steps, 3);
    for (std::size_t m = 0; m < 2; ++m)
      CHECK(states[i].moments[m].second.to_vector() == wanted[i].moments[m].second.to_vector());
  }
}

TEST_CASE("an optimizer's state moves between one device and several") {
  Blocks whole, placed(two_devices());
  AdamW first(whole), second(placed);
  train_steps(whole, first, 2);
  for (const nn::NamedParameter& named : whole.named_parameters())
    placed.parameter(named.name).mutable_tensor().copy_(named.parameter.tensor());
  second.load_state(first.state());
  train_steps(whole, first, 1);
  train_steps(placed, second, 1);
  CHECK(values_of(placed) == values_of(whole));
}

TEST_CASE("a gradient on another device that is not finite is refused and named") {
  Blocks model(two_devices());
  AdamW optimizer(model);
  const Bits before = values_of(model);
  model(Variable(normal({4, 70}))).backward();
  model.blocks[4]->second->bias.grad().fill_(std::numeric_limits<double>::infinity());
  CHECK_THROWS_WITH_AS(
      optimizer.step(),
      "[optimizer] the gradient of 'block.4.second.bias' is not finite; nothing was updated",
      Error);
  CHECK(values_of(model) == before);
}

TEST_CASE("strategies need one device, and a unit lies on one") {
  if (second_device() == default_device()) return;
  Blocks model(two_devices());
  CHECK_THROWS_WITH_AS(FullySharded(model, comm::Group()), doctest::Contains("[pack] block.1."),
                       Error);
  CHECK_THROWS_WITH_AS(DistributedDataParallel(model, comm::Group()),
                       doctest::Contains("parameters on several devices"), Error);
  Blocks cut({{"block.3.second", second_device()}});
  CHECK_THROWS_WITH_AS(AdamW{cut}, doctest::Contains("[pack] block.3.second.weight is on"), Error);
}

TEST_CASE("parameters that were packed again are refused by the earlier optimizer") {
  if (second_device() == default_device()) return;
  struct Outer final : nn::Module {
    explicit Outer(const std::shared_ptr<Blocks>& inner) { register_module("inner", inner); }
  };
  const auto model = std::make_shared<Blocks>(two_devices());
  AdamW optimizer(*model);
  Outer outer(model);
  const AdamW later(outer);
  (*model)(Variable(normal({4, 70}))).backward();
  CHECK_THROWS_WITH_AS(optimizer.step(),
                       "[pack] 'block.0.first.weight' was packed into another arena", Error);
}
