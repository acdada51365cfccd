#include "ringlet/autograd/split_backward.h"

#include <doctest/doctest.h>

#include "../device.h"
#include "ringlet/autograd/checkpoint.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;
using autograd::backward_to;

namespace {

/// Two layers with one weight, so that its gradient is a sum.
struct Twice {
  Variable x, weight, bias;

  Twice() {
    const GeneratorGuard guard({.seed = 3});
    x = Variable(normal({4, 5}), true);
    weight = Variable(normal({5, 5}), true);
    bias = Variable(normal({5}), true);
  }
  Variable loss() const {
    const Variable y = autograd::tanh(autograd::linear(x, weight, bias));
    return autograd::sum(autograd::mul(autograd::linear(y, weight), bias));
  }
};

std::vector<float> values(const Variable& leaf) { return leaf.grad().to_vector(); }

}  // namespace

TEST_CASE("the input's gradient first, the others later: the bits of one backward") {
  Twice whole, split;
  int calls = 0;
  const autograd::HookHandle hook = split.weight.register_ready_hook([&] { ++calls; });
  for (int round = 0; round < 2; ++round) {  // the second adds to the first
    whole.loss().backward();
    autograd::LeafGradients later = backward_to({split.x}, split.loss());
    CHECK(values(split.x) == values(whole.x));
    CHECK(split.weight.grad().defined() == (round > 0));
    CHECK(calls == round);
    later.run();
    CHECK(values(split.weight) == values(whole.weight));
    CHECK(values(split.bias) == values(whole.bias));
    CHECK(calls == round + 1);
  }
}

TEST_CASE("without an input, all gradients come later, and once") {
  Twice whole, split;
  whole.loss().backward();
  autograd::LeafGradients later = backward_to({}, split.loss());
  CHECK_FALSE(split.x.grad().defined());
  later.run();
  CHECK(values(split.x) == values(whole.x));
  CHECK(values(split.weight) == values(whole.weight));
  later.run();
  CHECK(values(split.weight) == values(whole.weight));
}

TEST_CASE("a graph is used once, and a checkpointed segment is refused") {
  const Twice net;
  const Variable loss = net.loss();
  backward_to({net.x}, loss).run();
  CHECK_THROWS_AS(backward_to({net.x}, loss), Error);
  const Variable segment = autograd::checkpoint(
      [&](const Variable& x) { return autograd::sum(autograd::linear(x, net.weight)); }, net.x);
  CHECK_THROWS_WITH_AS(backward_to({net.x}, segment),
                       "[backward_to] a checkpointed segment computes all its gradients at once",
                       Error);
  CHECK_THROWS_WITH_AS(backward_to({loss}, net.loss()), "[backward_to] an input is no leaf", Error);
}
