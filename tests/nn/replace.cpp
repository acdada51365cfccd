#include <doctest/doctest.h>

#include "ringlet/autograd/functions.h"
#include "ringlet/nn/lora.h"
#include "ringlet/nn/pack.h"
#include "ringlet/nn/replace.h"

using namespace ringlet;
using namespace ringlet::nn;

namespace {

/// Three named linear layers.
struct Tower final : Layer<Tower, Replaceable> {
  Tower() {
    for (std::size_t i = 0; i < 3; ++i)
      register_replaceable<UnaryModule>(str("layer.", i, ".dense"), layers[i],
                                        std::make_shared<Linear>(4, 4));
  }
  std::shared_ptr<Module> blank_copy(Cloner&) const override { return std::make_shared<Tower>(); }
  Variable forward(Variable x) {
    for (const auto& layer : layers) x = (*layer)(x);
    return x;
  }
  std::shared_ptr<UnaryModule> layers[3];
};

struct Twice final : UnaryModule {
  Variable forward(const Variable& x) override { return x * 2; }
};

std::vector<std::string> parameter_names(const Module& module) {
  std::vector<std::string> out;
  for (const NamedParameter& named : module.named_parameters()) out.push_back(named.name);
  return out;
}

const auto twice = [](const auto&) { return std::make_shared<Twice>(); };

}  // namespace

TEST_CASE("layers are replaced by name, by the last parts of it, or by '*' for one part") {
  Tower tower;
  CHECK(replace(tower, {"layer.1.dense"}, twice) == 1);
  CHECK(parameter_names(tower) ==
        std::vector<std::string>{"layer.0.dense.weight", "layer.0.dense.bias",
                                 "layer.2.dense.weight", "layer.2.dense.bias"});
  CHECK(tower.layers[1]->path() == "layer.1.dense");
  CHECK(replace(tower, {"layer.*.dense"}, twice) == 3);
  CHECK(tower.forward(ones({1, 2})).tensor().to_vector() == std::vector<float>{8, 8});
  CHECK(replace(*std::make_shared<Tower>(), {"dense"}, twice) == 3);
  CHECK(replace(*std::make_shared<Tower>(), {"2.dense"}, twice) == 1);
}

TEST_CASE("a layer that is not there, and one of another class, are named") {
  Tower tower;
  CHECK_THROWS_WITH_AS(replace(tower, {"layer.1.dens"}, twice),
                       "[module] no replaceable layer 'layer.1.dens'; near: layer.1.dense", Error);
  CHECK_THROWS_WITH_AS(replace(tower, {"layer.*"}, twice),
                       "[module] no replaceable layer 'layer.*'; there are: layer.*.dense", Error);
  CHECK_THROWS_WITH_AS(replace<Twice>(tower, {"layer.1.dense"}, twice),
                       "[module] layer.1.dense is a Linear, not of the class asked for", Error);
  CHECK_THROWS_WITH_AS(
      replace(tower, {"layer.1.dense"}, [](const auto&) { return std::make_shared<Tower>(); }),
      "[module] layer.1.dense of a Module cannot be replaced by a Module", Error);
}

TEST_CASE("layers are replaced before the parameters are packed, not after") {
  Tower tower;
  pack(tower);
  CHECK_THROWS_WITH_AS(replace(tower, {"layer.1.dense"}, twice),
                       "[module] layer.1.dense is replaced before an optimizer or a strategy is "
                       "made, not after",
                       Error);
}

TEST_CASE("LoRA keeps the base's names, freezes it and starts from its output") {
  Tower tower;
  const Variable x(normal({5, 4}));
  const std::vector<float> before = tower.forward(x).tensor().to_vector();
  CHECK(add_lora(tower, {.r = 2, .alpha = 4, .target_modules = {"0.dense", "2.dense"}}) == 2);
  CHECK(tower.forward(x).tensor().to_vector() == before);
  sum(tower.forward(x)).backward();
  CHECK(parameter_names(tower) ==
        std::vector<std::string>{"layer.0.dense.weight", "layer.0.dense.bias",
                                 "layer.0.dense.lora_A.weight", "layer.0.dense.lora_B.weight",
                                 "layer.1.dense.weight", "layer.1.dense.bias",
                                 "layer.2.dense.weight", "layer.2.dense.bias",
                                 "layer.2.dense.lora_A.weight", "layer.2.dense.lora_B.weight"});
  for (const NamedParameter& named : tower.named_parameters()) {
    CHECK(named.parameter.name() == named.name);
    CHECK(named.parameter.grad().defined() == (named.name.find("lora_") != std::string::npos));
  }
  const auto copy = std::dynamic_pointer_cast<Tower>(clone(tower, default_device()));
  CHECK(parameter_names(*copy) == parameter_names(tower));
  CHECK(copy->forward(x.tensor()).tensor().to_vector() == before);
}

TEST_CASE("a replacement that fails changes nothing") {
  Tower tower;
  const Variable x(normal({5, 4}));
  const std::vector<float> before = tower.forward(x).tensor().to_vector();
  const std::vector<std::string> names = parameter_names(tower);
  const auto check_refused = [&](const LoraOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS(add_lora(tower, options), message, Error);
    CHECK(parameter_names(tower) == names);
    for (const NamedParameter& named : tower.named_parameters()) {
      CHECK(named.parameter.name() == named.name);
      CHECK(named.parameter.requires_grad());
    }
    CHECK(tower.layers[1]->path() == "layer.1.dense");
    CHECK(tower.forward(x).tensor().to_vector() == before);
  };
  check_refused({.r = 0, .target_modules = {"1.dense"}}, "[Lora] r: expected 1 or more, got 0");
  check_refused({.target_modules = {"0.dense", "3.dense"}},
                "[module] no replaceable layer '3.dense'; there are: layer.*.dense");
  const auto second_fails = [](const std::shared_ptr<Module>& layer) -> std::shared_ptr<Module> {
    if (layer->path() == "layer.1.dense") return std::make_shared<Tower>();
    return std::make_shared<Twice>();
  };
  CHECK_THROWS_AS(replace(tower, {"dense"}, second_fails), Error);
  check_refused({.r = 0, .target_modules = {"0.dense"}}, "[Lora] r: expected 1 or more, got 0");
  CHECK(add_lora(tower, {.target_modules = {"0.dense", "dense", "2.dense"}}) == 3);
  CHECK(tower.forward(x).tensor().to_vector() == before);
}
