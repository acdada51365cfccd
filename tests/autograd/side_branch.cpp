// Captured backwards with a branch, on a GPU or, if there is none, on delayed_device.h.
#include "ringlet/autograd/side_branch.h"

#include <doctest/doctest.h>

#include <optional>

#include "../delayed_device.h"
#include "ringlet/autograd/checkpoint.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;
using namespace ringlet::autograd;
using Floats = std::vector<float>;

namespace {

constexpr unsigned kSeeds = 8;

/// A device that captures, as the default one.
struct Capturing {
  explicit Capturing(unsigned seed) {
    if (!has_backend(DeviceType::cuda)) delayed.emplace(seed);
    set_default_device({DeviceType::cuda, 0});
  }
  ~Capturing() { set_default_device(before); }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;
  Device before = default_device();
  std::optional<DelayedDevice> delayed;
};

bool captures() {
  const std::string why = why_no_graphs(default_device());
  if (!why.empty()) MESSAGE("skipped: nothing of ", default_device(), " is captured: ", why);
  return why.empty();
}

/// Linear layers, behind layer 12 more than a branch keeps the operands of. Weight 3 is scaled
/// first. Weight 7 and bias 10 are used twice, the bias in a sum, with gradients off the branch.
/// Weight 12, scaled, is an input of a checkpointed segment: its gradient is read as soon as the
/// segment's backward ends. Gradients are read after backward.
struct Layers {
  static constexpr std::int64_t kSize = 16;
  static constexpr std::size_t kCount = 32;

  Layers() {
    const GeneratorGuard random({.seed = 7});
    x = normal({12, kSize});
    for (std::size_t i = 0; i < kCount; ++i) {
      weights.push_back(parameter({kSize, kSize}));
      biases.push_back(parameter({kSize}));
    }
    after = zeros({kSize, kSize});
  }
  static Variable parameter(const Shape& shape) {
    const Variable made(normal(shape, 0, 0.25), true);
    made.set_grad_buffer(zeros(shape));
    return made;
  }
  void backward() {
    for (const Variable& weight : weights) weight.zero_grad();
    for (const Variable& bias : biases) bias.zero_grad();
    Variable y(x);
    for (std::size_t i = 0; i < kCount; ++i) {
      const Variable& weight = weights[i == 8 ? 7 : i];
      const auto layer = [bias = biases[i]](const std::vector<Variable>& in) {
        return linear(in[0], in[1], bias);
      };
      y = i == 2    ? packed_linear(y, {weight}, {biases[i]})
          : i == 12 ? checkpoint(layer, std::vector{y, weight * 0.5})
                    : layer({y, i == 3 ? weight * 0.5 : weight});
      y = tanh(i == 6 ? y + biases[10] : y);
    }
    sum(square(y)).backward();
    after.copy_(weights[0].grad());
  }
  std::vector<Floats> gradients() {
    std::vector<Floats> all{after.to_vector()};
    for (std::size_t i = 0; i < kCount; ++i) {
      if (i != 8) all.push_back(weights[i].grad().to_vector());
      all.push_back(biases[i].grad().to_vector());
    }
    return all;
  }

  Tensor x, after;
  std::vector<Variable> weights, biases;
};

}  // namespace

TEST_CASE("gradients on a branch of a captured backward have the bits of an eager one") {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const Capturing on(seed);
    const Device device = default_device();
    if (!captures()) return;
    Layers layers;
    layers.backward();
    const std::vector<Floats> expected = layers.gradients();
    SideBranch branch(device);
    const auto graph = capture(device, [&] {
      const SideBranch::Scope branches(branch);
      layers.backward();
      branch.join();
    });
    for (int i = 0; i < 2; ++i) {
      for (const Variable& weight : layers.weights) Tensor(weight.grad_buffer()).fill_(-1);
      graph->replay();
      CHECK(layers.gradients() == expected);
    }
    if (!on.delayed) return;
  }
}

TEST_CASE("a write to memory that a branch may still read is an error") {
  const Capturing on(1);
  const Device device = default_device();
  if (!captures()) return;
  SideBranch branch(device);
  Tensor read = ones({8}), written = zeros({8});
  static_cast<void>(capture(device, [&] {
    const SideBranch::Scope branches(branch);
    const auto copies = [&] { branch.run({read}, [&] { written.copy_(read); }); };
    copies();
    branch.join();
    read.fill_(2);
    copies();
    read.fill_(3);
    CHECK_THROWS_WITH_AS(
        branch.join(), "[backward] a (8,) tensor was written to while a branch of the step read it",
        Error);
  }));
}
