#include "ringlet/autograd/checkpoint.h"

#include <doctest/doctest.h>

#include "../device.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("a checkpointed segment gives the same gradients and fires hooks once") {
  const auto run = [](bool checkpointed) {
    const Variable w(tensor({0.5f, -1.f}), true);
    const Variable x(tensor({1.f, 2.f}), true);
    int fired = 0, evaluated = 0;
    const HookHandle handle = w.register_ready_hook([&] { ++fired; });
    const auto segment = [&](const Variable& in) {
      ++evaluated;
      return tanh(in * w) * w;
    };
    Variable y = x;
    for (int i = 0; i < 3; ++i) y = checkpointed ? checkpoint(segment, y) : segment(y);
    sum(y).backward();
    CHECK(fired == 1);  // w is used in all three segments
    CHECK(evaluated == (checkpointed ? 6 : 3));
    return std::pair(w.grad().to_vector(), x.grad().to_vector());
  };
  CHECK(run(true) == run(false));
}

TEST_CASE_FIXTURE(OnCpu, "a checkpointed segment keeps no weight packed while it learns") {
  const Variable weight(normal({40, 30}), true), x(normal({7, 30}), true);
  const auto uses = [&] {
    const auto segment = [&](const Variable& in) { return linear(in, weight); };
    for (int use = 0; use < 3; ++use) checkpoint(segment, x);
    return memory_stats({}).sidecars;
  };
  CHECK(uses() == 0);
  const NoGrad no_grad;
  CHECK(uses() > 0);
}

TEST_CASE("a checkpointed segment draws the same numbers again") {
  const GeneratorGuard random({.seed = 5});
  const Variable x(tensor({1.f, 2.f, 3.f}), true);
  Tensor drawn;
  const Variable y = checkpoint(
      [&](const Variable& in) {
        const Tensor noise = normal({3});
        if (!drawn.defined()) drawn = noise;
        return in * Variable(noise);
      },
      x);
  sum(y).backward();
  CHECK(x.grad().to_vector() == drawn.to_vector());
}
