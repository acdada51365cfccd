#include <doctest/doctest.h>

#include <cmath>

#include "../autograd/pytorch.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/models/convnet.h"
#include "ringlet/nn/containers.h"
#include "ringlet/nn/layers.h"
#include "ringlet/nn/linear.h"
#include "ringlet/nn/loss.h"

using namespace ringlet;

TEST_CASE("losses on tensors are PyTorch's, with their gradients") {
  using autograd::Case;
  const auto labels = [](const Case& c) { return c.tensor("labels"); };
  autograd::check(
      {"nll_loss", [&](const Case& c) { return nn::nll_loss(c.leaf("x"), labels(c)); }, 32, 32});
  autograd::check(
      {"mse_loss", [](const Case& c) { return nn::mse_loss(c.leaf("a"), c.leaf("b")); }, 32, 32});
  autograd::check({"binary_cross_entropy_with_logits",
                   [](const Case& c) {
                     return nn::binary_cross_entropy_with_logits(c.leaf("x"), c.leaf("targets"));
                   },
                   32, 32});
  autograd::check(
      {"kl_div", [](const Case& c) { return nn::kl_div(c.leaf("x"), c.leaf("target")); }, 32, 32});
  autograd::check({"cross_entropy_options",
                   [&](const Case& c) {
                     return nn::cross_entropy(
                         c.leaf("x"), labels(c),
                         {.label_smoothing = c.number("label_smoothing"),
                          .ignore_index = static_cast<std::int64_t>(c.number("ignore_index"))});
                   },
                   32, 32});
  const Oracle ops("ops");
  const Case mean{ops, "cross_entropy.mean"};
  check_close(nn::cross_entropy(mean.leaf("x"), labels(mean)).tensor(), mean.tensor("y"),
              32 * kF32);
}

TEST_CASE("the slope of binary cross entropy at 0, and losses far from it") {
  const Variable x(tensor({0.f, 1e4f, -1e4f}), true);
  const Variable loss = nn::binary_cross_entropy_with_logits(x, tensor({1.f, 0.f, 0.f})) * 3;
  loss.backward();
  CHECK(loss.item() == doctest::Approx(1e4 + std::log(2)));
  CHECK(x.grad().to_vector() == std::vector<float>{-0.5f, 1, 0});
}

TEST_CASE("Sequential and ModuleList name their modules, run hooks and have copies") {
  const auto linear = std::make_shared<nn::Linear>(3, 4);
  nn::Sequential net(linear, autograd::relu, std::make_shared<nn::RMSNorm>(4));
  CHECK(net.size() == 3);
  CHECK(net.parameter("0.weight") == linear->weight);
  CHECK(net.parameter("2.weight").shape() == Shape{4});
  int calls = 0;
  linear->set_hooks({[&](nn::Module&) { ++calls; }, {}, {}});
  const Variable x(uniform({5, 3}));
  const std::vector<float> y = net(x).tensor().to_vector();
  CHECK(calls == 1);
  CHECK(nn::Sequential(std::make_shared<nn::MaxPool2d>(2))(Variable(ones({1, 1, 2, 4}))).shape() ==
        Shape{1, 1, 1, 2});
  CHECK(y == autograd::rms_norm(autograd::relu((*linear)(x)), Variable(ones({4})), 1e-6)
                 .tensor()
                 .to_vector());

  nn::ModuleList<nn::Linear> list;
  for (int i = 0; i < 2; ++i) list.push_back(std::make_shared<nn::Linear>(2, 2));
  CHECK(list.parameter("1.bias") == list[1].bias);
  CHECK_THROWS(list[2]);
  const auto copy = std::dynamic_pointer_cast<nn::Sequential>(nn::clone(net, default_device()));
  CHECK((*copy)(x).tensor().to_vector() == y);
  CHECK_FALSE(copy->parameter("0.weight") == linear->weight);
  CHECK(nn::clone(list, default_device())->parameter("0.weight").tensor().to_vector() ==
        list[0].weight.tensor().to_vector());
}

TEST_CASE("layers register their parameters under PyTorch's names") {
  nn::Linear linear(3, 2);
  CHECK(linear.parameter("weight").shape() == Shape{2, 3});
  CHECK(linear(Variable(ones({5, 3}))).shape() == Shape{5, 2});
  CHECK(nn::Linear(3, 2, false).parameters().size() == 1);
  nn::LayerNorm norm(4);
  CHECK(norm(Variable(ones({2, 4}))).tensor().to_vector() == std::vector<float>(8, 0));
  nn::Embedding embedding(10, 4);
  CHECK(embedding(tensor<std::int32_t>({3, 3}, {2})).shape() == Shape{2, 4});
  const Variable plane(arange(0, 8, 1, DType::f32).view({1, 1, 2, 4}));
  CHECK(nn::MaxPool2d(2)(plane).tensor().to_vector() == std::vector<float>{5, 7});
  CHECK(nn::MaxPool2d(3, 1)(Variable(ones({2, 4, 5, 5}))).shape() == Shape{2, 4, 3, 3});
  CHECK_THROWS_AS(linear(Variable(ones({5, 4}))), Error);
}

TEST_CASE("dropout drops in training only, by position and not by call") {
  nn::Dropout dropout(0.5);
  const Variable x(ones({64, 32}));
  const Tensor once = dropout(x).tensor();
  CHECK(once.to_vector() == dropout(x).tensor().to_vector());  // the same step, the same mask
  const double kept = sum(once).item<double>() / 2;
  CHECK(kept > 900);  // 1024 expected, standard deviation 23
  CHECK(kept < 1150);

  // The lower half of the rows alone, identified by position, has the lower half of the mask.
  std::vector<std::int32_t> names;
  for (std::int32_t row = 32; row < 64; ++row) names.insert(names.end(), {row, 0});
  const Tensor half = dropout(Variable(ones({32, 32})), tensor(names, {32, 2})).tensor();
  CHECK(half.to_vector() == once.slice(32, 64).to_vector());

  {
    const GeneratorGuard guard(default_generator());
    default_generator().next_step();
    CHECK(dropout(x).tensor().to_vector() != once.to_vector());
  }
  dropout.eval();
  CHECK(dropout(x).tensor().storage() == x.tensor().storage());
}

TEST_CASE("the MNIST convnet has the lesson's shapes") {
  models::Convnet net;
  CHECK(net.num_parameters() == 320 + 18496 + 9216 * 128 + 128 + 1290);
  net.eval();
  const Tensor y = net(Variable(zeros({3, 1, 28, 28}))).tensor();
  CHECK(y.shape() == Shape{3, 10});
  CHECK(sum(exp(y[0])).item() == doctest::Approx(1).epsilon(1e-5));  // log-probabilities
}
