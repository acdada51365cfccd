#include "ringlet/ringlet.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "../../oracle.h"
#include "ringlet/core/ops/fill.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// Parameters in separate units; their gradient is the test's factor.
struct Bag : nn::Module {
  struct Item : nn::Module {
    Item(const std::string& name, const Tensor& value) {
      parameter = register_parameter(name, value.clone());
    }
    nn::Parameter parameter;
  };
  nn::Parameter add(const std::string& module, const std::string& name, const Tensor& value) {
    items.push_back(register_module(module, std::make_shared<Item>(name, value)));
    return items.back()->parameter;
  }
  std::vector<std::shared_ptr<Item>> items;
};

void give_grad(const nn::Parameter& parameter, const Tensor& grad) {
  sum(parameter * Variable(grad)).backward();
}

std::vector<float> values(const nn::Parameter& parameter) { return parameter.tensor().to_vector(); }

/// Records the kernel calls of a step, to repeat them unchanged.
struct Recorder final : KernelObserver {
  void before(const char* name, const void* args, Device device) override {
    const std::string called = name;
    if (called == "adamw") return keep<AdamWArgs>(adamw_kernel, args, device);
    if (called == "sgd") return keep<SGDArgs>(sgd_kernel, args, device);
    if (called == "squared_norm") return keep<SquaredNormArgs>(squared_norm_kernel, args, device);
    if (called == "clip_factor") return keep<ClipFactorArgs>(clip_factor_kernel, args, device);
    if (called == "fill") return keep<FillArgs>(fill_kernel, args, device);
    FAIL("a step calls ", called);
  }
  void after(const char*, const void*, Device) override {}

  template <class Args>
  void keep(const OpKernel<Args>& kernel, const void* args, Device device) {
    calls.push_back(
        [&kernel, copy = *static_cast<const Args*>(args), device] { kernel(copy, device); });
  }
  std::vector<std::function<void()>> calls;
};

/// Takes the oracle's steps; each adds so many roundings of the parameter.
void take_steps(Optimizer& optimizer, const nn::Parameter& p, const Oracle& ops,
                const std::string& name, double roundings) {
  const Tensor gradients = ops.tensor(name + "/gradients");
  for (std::int64_t step = 0; step < gradients.size(0); ++step) {
    give_grad(p, gradients[step].view({1, 37}));
    optimizer.step();
    optimizer.zero_grad();
    check_close(p.tensor().view({37}), ops.tensor(name + "/steps")[step],
                roundings * kF32 * static_cast<double>(step + 1), name);
  }
}

}  // namespace

TEST_CASE("AdamW takes PyTorch's steps") {
  const Oracle ops("ops");
  for (const std::string& name : ops.cases("adamw")) {
    CAPTURE(name);
    Bag bag;
    const nn::Parameter p = bag.add("dense", "weight", ops.tensor(name + "/start").view({1, 37}));
    AdamW optimizer(bag, {.lr = ops.scalar(name + "/lr"),
                          .beta1 = ops.scalar(name + "/beta1"),
                          .beta2 = ops.scalar(name + "/beta2"),
                          .eps = ops.scalar(name + "/eps"),
                          .weight_decay = ops.scalar(name + "/weight_decay")});
    // About eight roundings per step, each relative to the parameter or to a small update.
    take_steps(optimizer, p, ops, name, 8);
    const auto state = optimizer.state();
    CHECK(state[0].steps == 5);
    check_close(state[0].moments[0].second, ops.tensor(name + "/exp_avg"), 20 * kF32);
    check_close(state[0].moments[1].second, ops.tensor(name + "/exp_avg_sq"), 30 * kF32);
  }
}

TEST_CASE("SGD takes PyTorch's steps") {
  const Oracle ops("ops");
  for (const std::string& name : ops.cases("sgd")) {
    CAPTURE(name);
    Bag bag;
    const nn::Parameter p = bag.add("dense", "weight", ops.tensor(name + "/start").view({1, 37}));
    Sgd optimizer(bag, {.lr = ops.scalar(name + "/lr"),
                        .momentum = ops.scalar(name + "/momentum"),
                        .weight_decay = ops.scalar(name + "/weight_decay")});
    take_steps(optimizer, p, ops, name, 4);
  }
}

TEST_CASE("SGD looks one step ahead with Nesterov's momentum") {
  Bag bag;
  const nn::Parameter p = bag.add("dense", "weight", ones({1, 1}));
  Sgd optimizer(bag, {.lr = 0.5, .momentum = 0.5, .nesterov = true});
  give_grad(p, ones({1, 1}));
  optimizer.step();  // m = 1, 1 - 0.5 (1 + 0.5)
  CHECK(values(p) == std::vector<float>{0.25});
  optimizer.zero_grad();
  give_grad(p, ones({1, 1}));
  optimizer.step();  // m = 1.5, 0.25 - 0.5 (1 + 0.75)
  CHECK(values(p) == std::vector<float>{-0.625});
  CHECK_THROWS_WITH_AS(Sgd(bag, {.nesterov = true}), "[sgd] nesterov needs momentum", Error);
}

TEST_CASE("clipping is clip_grad_norm_ folded into the update") {
  const Oracle ops("ops");
  for (const std::string& name : ops.cases("clip_grad_norm")) {
    CAPTURE(name);
    Bag bag;
    std::vector<nn::Parameter> parameters;
    for (int i = 0; i < 3; ++i) {
      const Tensor grad = ops.tensor(str(name, "/gradient", i));
      parameters.push_back(bag.add(str("part", i), "weight", zeros(grad.shape())));
      give_grad(parameters.back(), grad);
    }
    Sgd optimizer(bag, {.lr = 1, .max_grad_norm = ops.scalar(name + "/max_norm")});
    for (int i = 0; i < 3; ++i)  // set before the optimizer existed, so set again
      give_grad(parameters[static_cast<std::size_t>(i)], ops.tensor(str(name, "/gradient", i)));
    optimizer.step();
    const double total = ops.scalar(name + "/total_norm");
    CHECK(std::abs(optimizer.grad_norm() - total) <= 2 * kF32 * total);
    for (int i = 0; i < 3; ++i)  // from 0 at rate 1, the parameter is minus the clipped gradient
      check_close(scale(parameters[static_cast<std::size_t>(i)].tensor(), -1),
                  ops.tensor(str(name, "/clipped", i)), 4 * kF32);
  }
}

TEST_CASE("weight decay leaves out biases, LayerNorm and vectors") {
  CHECK(decays_by_default("encoder.layer.0.output.dense.weight", {4, 4}));
  CHECK_FALSE(decays_by_default("encoder.layer.0.output.dense.bias", {4}));
  CHECK_FALSE(decays_by_default("encoder.layer.0.output.LayerNorm.weight", {4}));
  CHECK_FALSE(decays_by_default("encoder.relative_attention_bias.weight", {32, 12}));

  Bag bag;
  const nn::Parameter weight = bag.add("dense", "weight", ones({2, 2}));
  const nn::Parameter bias = bag.add("head", "bias", ones({2}));
  Sgd optimizer(bag, {.lr = 0.5, .weight_decay = 0.5});
  give_grad(weight, zeros({2, 2}));
  give_grad(bias, zeros({2}));
  optimizer.step();
  CHECK(values(weight) == std::vector<float>{0.75, 0.75, 0.75, 0.75});
  CHECK(values(bias) == std::vector<float>{1, 1});
}

TEST_CASE("a group's parameters move as under a separate optimizer, by the rate's factor") {
  const Tensor start = ones({2, 2}), grad = full({2, 2}, 0.25);
  Bag bag;
  const nn::Parameter dense = bag.add("encoder.dense", "weight", start),
                      bias = bag.add("encoder.norm", "bias", start),
                      head = bag.add("head", "weight", start);
  AdamW optimizer(bag, {.lr = 0.1,
                        .weight_decay = 0.1,
                        .groups = {{.parameters = {"head"}, .lr = 0.5, .weight_decay = 0.2},
                                   {.parameters = {"bias", "weight"}, .weight_decay = 0.3}}});
  const auto apart = [&](double lr, double weight_decay) {
    Bag other;
    const nn::Parameter p = other.add("dense", "weight", start);
    AdamW alone(other, {.lr = lr, .weight_decay = weight_decay});
    for (const double factor : {1.0, 0.5}) {
      alone.set_lr(lr * factor);
      give_grad(p, grad);
      alone.step();
      alone.zero_grad();
    }
    return values(p);
  };
  for (const double factor : {1.0, 0.5}) {
    optimizer.set_lr_factor(factor);
    for (const nn::Parameter& p : {dense, bias, head}) give_grad(p, grad);
    optimizer.step();
    optimizer.zero_grad();
  }
  CHECK(optimizer.lr() == 0.05);
  CHECK(values(head) == apart(0.5, 0.2));  // the first group that names it
  CHECK(values(dense) == apart(0.1, 0.3));
  CHECK(values(bias) == apart(0.1, 0.3));
  CHECK_THROWS_WITH_AS(AdamW(bag, {.groups = {{.parameters = {"tail"}}}}),
                       "[module] no parameter 'tail'; there are: encoder.dense.weight, "
                       "encoder.norm.bias, head.weight",
                       Error);
  CHECK_THROWS_WITH_AS(AdamW(bag, {.groups = {{.parameters = {"head"}, .lr = -1}}}),
                       "[optimizer] a group's lr and weight_decay: expected 0 or more, found "
                       "head lr -1",
                       Error);
}

TEST_CASE(
    "the moving average begins with the first update, and takes the place of the parameters") {
  Bag bag;
  const nn::Parameter p = bag.add("dense", "weight", ones({1, 2})),
                      idle = bag.add("head", "weight", ones({1, 1}));
  Sgd optimizer(bag, {.lr = 0.5, .ema_decay = 0.75});
  const double expected[] = {0.5, 0.375, 0.15625};  // of 0.5, 0 and -0.5
  for (const double average : expected) {
    give_grad(p, ones({1, 2}));
    optimizer.step();
    optimizer.zero_grad();
    const std::vector<float> trained = values(p);
    {
      const EmaScope scope(optimizer);
      CHECK(values(p) == std::vector<float>(2, static_cast<float>(average)));
      CHECK(values(idle) == std::vector<float>{1});
    }
    CHECK(values(p) == trained);
  }
  CHECK_THROWS_AS(Sgd(bag, {.ema_decay = 1}), Error);
}

TEST_CASE("neighbours in memory keep their own decay and their own count of steps") {
  struct Layer : nn::Module {
    nn::Parameter bias = register_parameter("bias", ones({2}));
    nn::Parameter weight = register_parameter("weight", ones({1, 2}));
    nn::Parameter late = register_parameter("late", ones({1, 2}));
  } layer;
  AdamW optimizer(layer, {.lr = 0.5, .weight_decay = 1});
  give_grad(layer.weight, zeros({1, 2}));
  give_grad(layer.bias, zeros({2}));
  optimizer.step();
  CHECK(values(layer.weight) == std::vector<float>{0.5, 0.5});
  CHECK(values(layer.bias) == std::vector<float>{1, 1});
  CHECK(values(layer.late) == std::vector<float>{1, 1});
  optimizer.zero_grad();

  // A first step moves by lr for every size of the gradient; a second one with other momenta
  // differs.
  give_grad(layer.bias, full({2}, 4));
  give_grad(layer.weight, zeros({1, 2}));
  give_grad(layer.late, full({1, 2}, 4));
  optimizer.step();
  CHECK(values(layer.late)[0] == doctest::Approx(0.5 - 0.5).epsilon(1e-6));
  CHECK(values(layer.bias)[0] > 1 - 0.5 * 0.8);
  const auto state = optimizer.state();
  CHECK(state[0].steps == 2);
  CHECK(state[1].steps == 2);
  CHECK(state[2].steps == 1);
}

TEST_CASE("all parameters that lie together are updated by one kernel call") {
  for (const bool adamw : {true, false}) {
    CAPTURE(adamw);
    Bag bag;
    std::vector<nn::Parameter> parameters;
    for (const char* layer : {"a", "b", "c"}) {
      parameters.push_back(bag.add(str(layer, 1), "weight", ones({50, 3})));
      parameters.push_back(bag.add(str(layer, 2), "bias", ones({7})));
    }
    const nn::Parameter skipped = parameters[2];
    std::unique_ptr<Optimizer> optimizer;
    if (adamw)
      optimizer = std::make_unique<AdamW>(
          bag, AdamWOptions{.lr = 0.1, .weight_decay = 0.1, .check_finite = false});
    else
      optimizer = std::make_unique<Sgd>(
          bag, SgdOptions{.lr = 0.1, .weight_decay = 0.1, .check_finite = false});
    for (int step = 1; step <= 3; ++step) {  // one, skipped at first, counts its own
      for (const nn::Parameter& p : parameters)
        if (step > 1 || p.state() != skipped.state()) give_grad(p, ones(p.shape()));
      Recorder recorder;
      optimizer->prepare_step();
      kernel_observer = &recorder;
      optimizer->launch_step();
      kernel_observer = nullptr;
      optimizer->finish_step();
      optimizer->zero_grad();
      CHECK(recorder.calls.size() == 1);
      CHECK((values(skipped)[0] == 1) == (step == 1));
    }
  }
}

TEST_CASE("a parameter without a gradient is left alone, also by the clipping of others") {
  Bag bag;
  const nn::Parameter used = bag.add("encoder", "weight", zeros({2, 1}));
  const nn::Parameter head = bag.add("head", "weight", full({2, 1}, 5));
  AdamW optimizer(bag, {.lr = 0.1, .weight_decay = 0.5, .max_grad_norm = 1e9});
  const Tensor grad = tensor({3.f, 4.f}).view({2, 1});

  give_grad(used, grad);
  give_grad(head, full({2, 1}, 100));
  optimizer.step();
  optimizer.zero_grad();
  const std::vector<float> head_before = values(head);
  const auto state_before = optimizer.state()[1].moments[0].second.to_vector();

  give_grad(used, grad);
  optimizer.step();
  CHECK(optimizer.grad_norm() == 5.0);
  CHECK(values(head) == head_before);
  const auto state = optimizer.state();
  CHECK(state[0].steps == 2);
  CHECK(state[1].steps == 1);
  CHECK(state[1].moments[0].second.to_vector() == state_before);
}

TEST_CASE("one parameter updates to the same bits alone and among neighbours") {
  const std::int64_t n = 5000;  // more than a norm block
  manual_seed(3);
  const Tensor start = arange(0, n).to(DType::f32).view({n, 1});
  const Tensor grad = scale(start, 1e-3);
  const auto train = [&](bool neighbours) {
    Bag bag;
    if (neighbours) bag.add("first", "weight", ones({3, 1}));
    const nn::Parameter p = bag.add("middle", "weight", start);
    if (neighbours) bag.add("last", "bias", ones({7}));
    AdamW optimizer(bag, {.weight_decay = 0.01, .max_grad_norm = 1});
    for (int step = 0; step < 3; ++step) {
      give_grad(p, grad);
      optimizer.step();
      optimizer.zero_grad();
    }
    return values(p);
  };
  CHECK(train(false) == train(true));
}

TEST_CASE("a step in progress updates nothing where a gradient is not finite") {
  Bag bag;
  const nn::Parameter good = bag.add("good", "weight", ones({2, 1}));
  const nn::Parameter bad = bag.add("bad", "weight", ones({2, 1}));
  AdamW optimizer(bag, {.lr = 1, .weight_decay = 0.5, .max_grad_norm = 1});
  const auto take = [&](float value) {
    optimizer.zero_grad();
    give_grad(good, ones({2, 1}));
    give_grad(bad, tensor({0.f, value}).view({2, 1}));
    optimizer.prepare_step();
    optimizer.launch_step();
  };
  take(2);
  optimizer.finish_step();
  const auto everything = [&] {
    std::vector<std::vector<float>> all{values(good), values(bad)};
    for (const Tensor& moment : optimizer.local_moments()[0]) all.push_back(moment.to_vector());
    return all;
  };
  const auto before = everything();
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    take(value);
    CHECK(everything() == before);
    CHECK_THROWS_WITH_AS(
        optimizer.finish_step(),
        "[optimizer] the gradient of 'bad.weight' is not finite; nothing was updated", Error);
    CHECK(everything() == before);
    for (const auto& state : optimizer.updates()) CHECK(state.steps == 1);
  }
  take(2);
  optimizer.finish_step();
  CHECK(everything() != before);
  for (const auto& state : optimizer.updates()) CHECK(state.steps == 2);
}

TEST_CASE("a step that is checked late takes back itself and those behind it") {
  Bag bag;
  const nn::Parameter good = bag.add("good", "weight", ones({8192, 1}));
  const nn::Parameter bad = bag.add("bad", "weight", ones({8192, 1}));
  AdamW optimizer(bag, {.lr = 1, .max_grad_norm = 1});
  const GeneratorGuard guard(RandomGenerator{5, 0, 0});
  const auto take = [&](double value) {
    optimizer.zero_grad();
    give_grad(good, ones({8192, 1}));
    give_grad(bad, full({8192, 1}, value));
    optimizer.prepare_step();
    optimizer.launch_step();
    optimizer.end_step();
  };
  CHECK(std::isnan(optimizer.grad_norm()));
  take(1);
  take(2);
  optimizer.check_steps(/*late=*/1);
  CHECK(optimizer.grad_norm() == 128);
  const std::vector<float> before = values(good);
  default_generator().draws = 3;
  take(std::numeric_limits<double>::infinity());
  take(3);
  optimizer.check_steps(/*late=*/2);
  CHECK(optimizer.updates()[0].steps == 4);
  CHECK_THROWS_WITH_AS(
      optimizer.check_steps(/*late=*/1),
      "[optimizer] the gradient of 'bad.weight' is not finite; nothing was updated", Error);
  CHECK(values(good) == before);
  for (const auto& state : optimizer.updates()) CHECK(state.steps == 2);
  CHECK(default_generator().step == 2);
  CHECK(default_generator().draws == 3);
  take(2);
  optimizer.check_steps();
  CHECK(values(good) != before);
  for (const auto& state : optimizer.state()) CHECK(state.steps == 3);
}

TEST_CASE(
    "parameters that share a block are named together if the cause is not known more closely") {
  struct Three : nn::Module {
    Three() {
      for (const char* name : {"first", "other", "skipped"}) register_parameter(name, ones({7}));
    }
  } three;
  const nn::Parameter first = three.parameter("first"), other = three.parameter("other");
  Sgd optimizer(three, {.lr = 1});
  give_grad(first, ones({7}));
  give_grad(other, full({7}, NAN));
  optimizer.prepare_step();
  optimizer.launch_step();
  optimizer.end_step();
  optimizer.zero_grad();
  CHECK_THROWS_WITH_AS(optimizer.check_steps(),
                       "[optimizer] the gradient of 'first' or 'other' is not finite; "
                       "nothing was updated",
                       Error);
}

TEST_CASE("the work of one step, done again, takes the step that was prepared last") {
  for (const bool adamw : {true, false}) {
    CAPTURE(adamw);
    const auto train = [&](bool again) {
      Bag bag;
      const nn::Parameter p = bag.add("a", "weight", full({5000, 1}, 2));
      const nn::Parameter q = bag.add("b", "bias", ones({3}));
      bag.add("skipped", "weight", ones({2, 2}));
      std::unique_ptr<Optimizer> optimizer;
      if (adamw)
        optimizer =
            std::make_unique<AdamW>(bag, AdamWOptions{.weight_decay = 0.1, .max_grad_norm = 1});
      else
        optimizer = std::make_unique<Sgd>(bag, SgdOptions{.momentum = 0.9, .max_grad_norm = 1});
      Recorder recorder;
      for (int step = 1; step <= 5; ++step) {
        give_grad(p, full({5000, 1}, step == 4 ? 1e-4 : step));  // the fourth is not clipped
        give_grad(q, ones({3}));
        optimizer->set_lr(0.1 / step);
        optimizer->prepare_step();
        if (again && step > 2) {
          for (const auto& call : recorder.calls) call();
        } else {
          recorder.calls.clear();
          kernel_observer = &recorder;
          optimizer->launch_step();
          kernel_observer = nullptr;
        }
        optimizer->finish_step();
        optimizer->zero_grad();
      }
      return std::tuple(values(p), values(q), optimizer->grad_norm());
    };
    CHECK(train(false) == train(true));
  }
}

TEST_CASE("state goes out and in by name, and training goes on with the same bits") {
  const auto make = [](Bag& bag) {
    return std::vector{bag.add("a", "weight", full({3, 1}, 2)), bag.add("b", "bias", ones({2}))};
  };
  const auto train = [](std::vector<nn::Parameter>& parameters, AdamW& optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      sum(parameters[0] * parameters[0]).backward();
      sum(parameters[1] * parameters[1]).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  Bag straight;
  auto p = make(straight);
  AdamW optimizer(straight, {.lr = 0.1});
  train(p, optimizer, 5);

  Bag first, second;
  auto q = make(first), r = make(second);
  AdamW before(first, {.lr = 0.1}), after(second, {.lr = 0.1});
  train(q, before, 2);
  for (std::size_t i = 0; i < 2; ++i) Tensor(r[i].tensor()).copy_(q[i].tensor());
  after.load_state(before.state());
  train(r, after, 3);
  for (std::size_t i = 0; i < 2; ++i) CHECK(values(p[i]) == values(r[i]));

  CHECK_THROWS_WITH_AS(after.load_state({{"c.weight", 1, {}}}),
                       "[optimizer] no parameter 'c.weight'", Error);
}

TEST_CASE("moments that do not fit are refused with both shapes, and nothing is changed") {
  Bag bag;
  const nn::Parameter p = bag.add("a", "weight", full({3, 1}, 2));
  bag.add("b", "bias", ones({2}));
  AdamW optimizer(bag, {.lr = 0.1});
  give_grad(p, ones({3, 1}));
  optimizer.step();
  const auto kept = [&] {
    const auto state = optimizer.state();
    return state[0].steps == 1 && state[0].moments[0].second.to_vector()[0] != 0;
  };
  const auto given = [](const Tensor& first, const Tensor& second) {
    return std::vector<Optimizer::ParameterState>{
        {"b.bias", 0, {}}, {"a.weight", 7, {{"exp_avg", first}, {"exp_avg_sq", second}}}};
  };
  const Tensor good = ones({3, 1});
  CHECK_THROWS_WITH_AS(optimizer.load_state(given(good, ones({1, 3}))),
                       "[optimizer] exp_avg_sq of a.weight: expected shape (3, 1), found (1, 3)",
                       Error);
  CHECK_THROWS_WITH_AS(optimizer.load_state(given(ones({2}), good)),
                       "[optimizer] exp_avg of a.weight: expected shape (3, 1), found (2,)", Error);
  CHECK_THROWS_WITH_AS(optimizer.load_state(given(good, Tensor())),
                       "[optimizer] exp_avg_sq of a.weight: expected shape (3, 1), found an "
                       "undefined tensor",
                       Error);
  CHECK_THROWS_AS(optimizer.load_state({{"a.weight", 7, {{"exp_avg", good}}}}), Error);
  CHECK_THROWS_AS(optimizer.load_state({{"a.weight", -1, {}}}), Error);
  CHECK(kept());
  CHECK_NOTHROW(optimizer.load_state(given(good, ones({3}))));
  CHECK(optimizer.state()[0].steps == 7);
}

TEST_CASE("an optimizer updates its local slices only, and gathers the norm of all") {
  struct SecondUnit final : nn::Sharding {
    explicit SecondUnit(nn::Arena& arena) : nn::Sharding(arena, {}, {}) {}
    std::vector<nn::LocalSlice> local_slices() override {
      const std::int64_t end = arena_->numel();
      return {{kNormBlock, end, arena_->data().slice(kNormBlock, end),
               arena_->grad().slice(kNormBlock, end)}};
    }
    void gather_norm_blocks(Tensor& blocks) override { blocks.slice(0, 1).fill_(9); }
    const comm::Group& replicas() const override { return group_; }
    Tensor whole_unit(const nn::Unit&) override { return {}; }
  };
  Bag bag;
  const nn::Parameter other = bag.add("other", "weight", ones({2, 1}));
  const nn::Parameter mine = bag.add("mine", "weight", ones({1, 1}));
  const auto arena = nn::pack(bag);
  arena->set_sharding(std::make_shared<SecondUnit>(*arena));
  Sgd optimizer(bag, {.lr = 1, .max_grad_norm = 2.5});
  give_grad(other, ones({2, 1}));
  give_grad(mine, full({1, 1}, 4));
  optimizer.step();
  CHECK(optimizer.grad_norm() == 5.0);
  CHECK(values(other) == std::vector<float>{1, 1});
  CHECK(values(mine)[0] == doctest::Approx(1 - 4 * 0.5).epsilon(1e-6));
}

TEST_CASE("a module packed anew needs a new optimizer") {
  auto bag = std::make_shared<Bag>();
  const nn::Parameter p = bag->add("a", "weight", ones({2, 1}));
  Sgd optimizer(*bag);
  struct Outer : nn::Module {
    explicit Outer(std::shared_ptr<Bag> bag) { register_module("bag", std::move(bag)); }
  } outer(bag);
  nn::pack(outer);
  give_grad(p, ones({2, 1}));
  CHECK_THROWS_AS(optimizer.step(), Error);
}

TEST_CASE("every step has dropout masks of its own") {
  Bag bag;
  const nn::Parameter p = bag.add("m", "p", ones({1}));
  Sgd optimizer(bag);
  manual_seed(7);
  give_grad(p, ones({1}));
  optimizer.step();
  CHECK(default_generator().step == 1);
}

TEST_CASE("two optimizers of one module may alternate, each with moments of its own") {
  Bag bag;
  const nn::Parameter p = bag.add("m", "p", ones({1}));
  Sgd first(bag, {.lr = 1, .momentum = 0.5}), second(bag, {.lr = 0.5, .momentum = 0.5});
  const auto step = [&](Optimizer& optimizer, double grad) {
    optimizer.zero_grad();
    give_grad(p, full({1}, grad));
    optimizer.step();
    return p.tensor().item();
  };
  CHECK(step(first, 1) == 0);  // torch.optim.SGD's values
  CHECK(step(second, 2) == -1);
  CHECK(step(first, 4) == -5.5);
  CHECK(step(second, 1) == -6.5);
}

TEST_CASE("a step needs a gradient that no step has used, and a module parameters") {
  Bag bag;
  CHECK_THROWS_WITH_AS(Sgd{bag}, "[optimizer] the module has no parameters", Error);
  const nn::Parameter p = bag.add("m", "p", ones({1}));
  Sgd first(bag, {.lr = 1}), second(bag, {.lr = 1});
  const auto refuses = [&](Optimizer& optimizer) {
    CHECK_THROWS_WITH_AS(optimizer.step(),
                         "[optimizer] every gradient is missing or was used by an earlier step: "
                         "call backward() before each step()",
                         Error);
  };
  refuses(first);
  give_grad(p, ones({1}));
  first.step();
  CHECK(p.tensor().item() == 0);
  refuses(first);
  refuses(second);
  give_grad(p, ones({1}));  // added to the gradient that was used
  second.step();
  CHECK(p.tensor().item() == -2);
  first.zero_grad();
  refuses(first);
  p.state()->grad_buffer.fill_(NAN);
  p.state()->has_grad = true;
  CHECK_THROWS_AS(first.step(), Error);  // nothing was updated
  p.state()->grad_buffer.fill_(1);
  first.step();
  CHECK(p.tensor().item() == -3);
}
