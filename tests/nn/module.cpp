#include "ringlet/nn/module.h"

#include <doctest/doctest.h>

#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/nn/clone.h"
#include "ringlet/nn/pack.h"

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
  void add(const std::string& name, std::shared_ptr<Module> module) {
    register_module(name, std::move(module));
  }
  std::shared_ptr<Affine> first, second;
  Parameter scale;
};

/// State that is not trained by gradients.
struct Counter : Layer<Counter> {
  Counter() {
    register_buffer("calls", zeros({1}, DType::i64));
    register_buffer("mean", full({2}, 0.5));
  }
  void add(const std::string& name) { register_buffer(name, zeros({1})); }
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
                       "[module] no parameter 'layer.7.bias'; near: layer.0.bias", Error);
  CHECK_THROWS_WITH_AS(net.parameter("layer.1.weigth"),
                       "[module] no parameter 'layer.1.weigth'; near: layer.1.weight", Error);
  CHECK_THROWS_WITH_AS(
      net.parameter("bias"),
      "[module] no parameter 'bias'; there are: scale, layer.*.weight, layer.*.bias", Error);
}

TEST_CASE("a parameter's name is taken once, by a shared one, too") {
  struct Tied : Module {
    explicit Tied(const std::string& name) {
      const Parameter weight = register_parameter("weight", ones({1}));
      register_parameter(name, weight);
    }
  };
  CHECK_THROWS_WITH_AS(Tied("weight"), "[module] parameter 'weight' registered twice", Error);
  CHECK(names(Tied("decoder")) == std::vector<std::string>{"weight"});
}

TEST_CASE("paths go from the outermost module, by the first way to each") {
  const auto shared = std::make_shared<Affine>(3);
  const auto head = std::make_shared<Net>();
  Net outer;
  outer.add("head", head);
  head->add("encoder", shared);  // from the top down
  CHECK(shared->path() == "head.encoder");
  CHECK(shared->weight.name() == "head.encoder.weight");
  {
    Net other;
    other.add("", shared);
    other.add("outer", head);
    CHECK(head->first->path() == "outer.layer.0");
    CHECK(shared->path().empty());
    CHECK(other.parameter("weight") == shared->weight);
  }
  CHECK(head->first->path() == "layer.0");  // its former parent is destroyed
  CHECK(shared->weight.name() == "encoder.weight");
}

TEST_CASE("packing makes parameters contiguous and keeps their values") {
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

TEST_CASE("a plan has the layout of an arena and no memory; packing gives it some") {
  Net net(true);
  const auto planned = plan(net);
  CHECK_FALSE(planned->data().defined());
  CHECK(planned->numel() > 0);
  const std::int64_t offset = planned->units()[1].parameters[0].offset;
  CHECK(plan(net) == planned);
  const auto packed = pack(net);
  CHECK(packed->data().numel() == packed->numel());
  CHECK(packed->units()[1].parameters[0].offset == offset);
}

TEST_CASE("a copy on another device has the values and parameters of its own") {
  struct Copied : Layer<Copied> {
    Copied() { weight = register_parameter("weight", full({2}, 3)); }
    const char* kind() const override { return "Copied"; }
    std::shared_ptr<Module> blank_copy(Cloner&) const override {
      return std::make_shared<Copied>();
    }
    Parameter weight;
  };
  Copied original;
  original.weight.mutable_tensor().fill_(5);
  original.eval();
  const auto copy = clone(original, {DeviceType::cpu, 1});
  CHECK_FALSE(copy->training());
  const Parameter weight = copy->parameter("weight");
  CHECK(weight.device() == Device{DeviceType::cpu, 1});
  CHECK(weight.tensor().to_vector() == std::vector<float>{5, 5});
  original.weight.mutable_tensor().fill_(7);
  CHECK(weight.tensor().to_vector() == std::vector<float>{5, 5});
  CHECK_THROWS_WITH_AS(clone(Net(), {}), "[module] a Module cannot be copied: it has no blank_copy",
                       Error);
}

TEST_CASE("buffers have dotted names, each once, and move with the module") {
  const auto counter = std::make_shared<Counter>();
  Net net;
  net.add("first", counter);
  net.add("second", counter);  // registered twice
  net.add("third", std::make_shared<Counter>());
  const auto buffer_names = [&] {
    std::vector<std::string> all;
    for (const auto& [name, buffer] : net.named_buffers()) all.push_back(name);
    return all;
  };
  CHECK(buffer_names() ==
        std::vector<std::string>{"first.calls", "first.mean", "third.calls", "third.mean"});
  CHECK(net.num_parameters() == 13);  // excludes buffers
  CHECK_THROWS_WITH_AS(counter->add("mean"), "[module] buffer 'mean' registered twice", Error);

  net.named_buffers()[0].second.fill_(7);
  const Device second{DeviceType::cpu, 1};
  net.to(second);
  for (const auto& [name, buffer] : net.named_buffers()) CHECK(buffer.device() == second);
  CHECK(counter->named_buffers()[0].second.to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{7});
  CHECK(net.named_buffers()[1].second.to_vector() == std::vector<float>{0.5, 0.5});
}

TEST_CASE("the handle of a buffer follows it, and a copy has one of its own") {
  struct Shift : Layer<Shift> {
    Variable forward(const Variable& x) { return x + by; }
    std::shared_ptr<Module> blank_copy(Cloner&) const override { return std::make_shared<Shift>(); }
    Buffer by = register_buffer("by", full({2}, 3));
  };
  Shift shift;
  CHECK(shift.buffer("by") == shift.by);
  const Device second{DeviceType::cpu, 1};
  shift.to(second);
  CHECK(shift.by.device() == second);
  shift.by.mutable_tensor().fill_(5);
  CHECK(shift.named_buffers()[0].second.to_vector() == std::vector<float>{5, 5});
  CHECK(shift(Variable(ones({2}).to(second))).tensor().to_vector() == std::vector<float>{6, 6});

  const Device first = default_device();
  const auto copy = std::dynamic_pointer_cast<Shift>(clone(shift, first));
  shift.by.mutable_tensor().fill_(7);
  CHECK(copy->by.device() == first);
  CHECK((*copy)(Variable(ones({2}))).tensor().to_vector() == std::vector<float>{6, 6});

  Net net;
  net.add("first", std::make_shared<Counter>());
  CHECK(net.buffer("first.calls").name() == "first.calls");
  CHECK_THROWS_WITH_AS(net.buffer("second.calls"),
                       "[module] no buffer 'second.calls'; there are: first.calls, first.mean",
                       Error);
}

TEST_CASE("contiguous neighbours are one tensor") {
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

  log.clear();
  net.first->set_hooks({[&](Module&) { log += "pre "; },
                        [&](Module&) { log += "post "; },
                        {},
                        [&](Module& m) { log += "failed:" + m.path(); }});
  CHECK_THROWS_AS(net(Variable(ones({5}))), Error);
  CHECK(log == "pre failed:layer.0");

  log.clear();
  net.first->set_strategy_hooks({[&](Module&) { log += "("; }, [&](Module&) { log += ")"; },
                                 [&](Module&) { log += "<"; }, [&](Module&) { log += "!"; }});
  CHECK_THROWS_AS(net(Variable(ones({5}))), Error);
  CHECK(log == "(pre failed:layer.0!");
  log.clear();
  net.first->set_hooks({[&](Module&) { log += "pre"; }, [&](Module&) { log += "post"; },
                        [&](Module&) { log += "backward"; }});
  sum(net(Variable(ones({3})))).backward();
  CHECK(log == "(prepost)<backward");
}
