#include <doctest/doctest.h>

#include "../autograd/pytorch.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/models/convnet.h"
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
  const Oracle ops("ops");
  const Case mean{ops, "cross_entropy.mean"};
  check_close(nn::cross_entropy(mean.leaf("x"), labels(mean)).tensor(), mean.tensor("y"),
              32 * kF32);
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
