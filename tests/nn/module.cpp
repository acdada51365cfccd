#include "ringlet/nn/module.h"

#include <doctest/doctest.h>

#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/autograd/functions/reduce.h"
#include "ringlet/nn/arena.h"

using namespace ringlet;
using namespace ringlet::nn;

namespace {

struct Affine : Layer<Affine> {
  explicit Affine(std::int64_t n, bool unit = false) : unit(unit) {
    weight = register_parameter("weight", full({n}, 2));
    bias = register_parameter("bias", full({n}, 1));
  }
  bool is_unit() const override { return unit; }
  Variable forward(const Variable& x) { return x * weight + bias; }
  Parameter weight, bias;
  bool unit;
};

struct Net : Layer<Net> {
  explicit Net(bool units = false) {
    first = register_module("layer.0", std::make_shared<Affine>(3, units));
    second = register_module("layer.1", std::make_shared<Affine>(3, units));
    scale = register_parameter("scale", ones({1}));
  }
  Variable forward(const Variable& x) { return (*second)((*first)(x)) * scale; }
  std::shared_ptr<Affine> first, second;
  Parameter scale;
};

std::vector<std::string> names(const Module& module) {
  std::vector<std::string> out;
  for (const NamedParameter& named : module.named_parameters()) out.push_back(named.name);
  return out;
}

}  // namespace

TEST_CASE("parameters have dotted names, in the order of registration") {
  const Net net;
  CHECK(names(net) == std::vector<std::string>{"scale", "layer.0.weight", "layer.0.bias",
                                               "layer.1.weight", "layer.1.bias"});
  CHECK(net.num_parameters() == 13);
  CHECK(net.parameter("layer.1.bias") == net.second->bias);
  CHECK_THROWS_WITH_AS(net.parameter("layer.7.bias"),
                       "no parameter 'layer.7.bias'; near: layer.0.bias, layer.1.bias", Error);
}

TEST_CASE("packing moves parameters end to end and keeps their values") {
  Net net(true);
  const auto arena = pack(net);
  REQUIRE(arena->units().size() == 3);
  CHECK(arena->units()[1].name == "layer.0");
  CHECK(arena->units()[1].begin == kNormBlock);
  CHECK(arena->units()[1].end == kNormBlock + 6);
  CHECK(net.first->weight.tensor().storage() == arena->data().storage());
  CHECK(net.first->bias.tensor().to_vector() == std::vector<float>{1, 1, 1});
  CHECK(pack(net) == arena);

  const Tensor x = tensor({1.f, 2.f, 3.f});
  arena->grad();
  sum(net(Variable(x))).backward();
  CHECK(arena->grad().slice(kNormBlock, kNormBlock + 6).to_vector() ==
        std::vector<float>{2, 4, 6, 2, 2, 2});
}

TEST_CASE("tensors that lie end to end are one tensor") {
  const Tensor base = zeros({6, 2});
  const Tensor parts[] = {base.slice(0, 2), base.slice(2, 3), base.slice(3, 6)};
  CHECK(adjacent(parts).shape() == Shape{6, 2});
  const Tensor swapped[] = {parts[1], parts[0]};
  CHECK_FALSE(adjacent(swapped).defined());
}

TEST_CASE("hooks run around forward, and before the gradient enters") {
  Net net;
  std::string log;
  net.first->set_hooks({[&](Module&) { log += "pre "; }, [&](Module&) { log += "post "; },
                        [&](Module& m) { log += "backward:" + m.path(); }});
  const Variable y = net(Variable(tensor({1.f, 1.f, 1.f})));
  CHECK(log == "pre post ");
  sum(y).backward();
  CHECK(log == "pre post backward:layer.0");
}
