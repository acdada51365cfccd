// Two modules, each with a strategy, in one graph and over one Group. Ranks allocate differently
// first, so that no order of addresses is the same on all of them.
#include <doctest/doctest.h>

#include <random>

#include "every_strategy.h"
#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/autograd/functions/reduce.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr std::int64_t kSize = 2 * 4096;

struct Scale final : nn::Layer<Scale> {
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) { return autograd::mul(x, weight); }
  nn::Parameter weight = register_parameter("weight", full({kSize}, 0.5));
};

/// y = scale(x) + bias: a unit, and a parameter outside every unit.
struct Tower final : nn::Layer<Tower> {
  explicit Tower(double value) : bias(register_parameter("bias", full({kSize}, value))) {}
  Variable forward(const Variable& x) { return autograd::add((*scale)(x), bias); }
  std::shared_ptr<Scale> scale = register_module("scale", std::make_shared<Scale>());
  nn::Parameter bias;
};

struct Towers {
  Tower first{1}, second{-2};
  /// Each step runs its graph backward twice.
  void train(AdamW& of_first, AdamW& of_second, double x) {
    for (int step = 0; step < 2; ++step) {
      const Variable loss = autograd::sum(
          autograd::mul(first(Variable(full({kSize}, x))), second(Variable(full({kSize}, 1 - x)))));
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      for (AdamW* optimizer : {&of_first, &of_second}) {
        optimizer->step();
        optimizer->zero_grad();
      }
    }
  }
  std::vector<float> values() const {
    std::vector<float> all;
    for (const Tower* tower : {&first, &second}) {
      nn::WholeParameters whole(*tower);
      for (const nn::Parameter& parameter : tower->parameters())
        for (const float value : whole(parameter).to_vector()) all.push_back(value);
    }
    return all;
  }
};

/// Leaves holes of every size in this thread's heap.
std::vector<std::string> allocate(std::mt19937& random) {
  std::vector<std::string> kept;
  for (int i = 0; i < 400; ++i) {
    std::string text(random() % 2000, 'x');
    if (random() % 2) kept.push_back(std::move(text));
  }
  return kept;
}

std::vector<float> trained_on(const comm::Group& group, std::mt19937& random,
                              const FullyShardedOptions& options) {
  Towers towers;
  const auto before = allocate(random);
  const FullySharded first(towers.first, group, options);
  const auto between = allocate(random);
  const FullySharded second(towers.second, group, options);
  AdamW of_first(towers.first), of_second(towers.second);
  // Every rank has the same rows, and each counts a part.
  towers.train(of_first, of_second, 0.25);
  return towers.values();
}

}  // namespace

TEST_CASE("two strategies on one group end with one device's weights, wherever they lie") {
  constexpr int kRanks = 4;
  Towers alone;
  AdamW of_first(alone.first), of_second(alone.second);
  alone.train(of_first, of_second, 0.25);
  const std::vector<float> expected = alone.values();
  for (const int shard_size : {0, 2})
    comm::launch(
        [&](const comm::Group& group) {
          std::mt19937 random(static_cast<unsigned>(group.rank()));
          for (int round = 0; round < 4; ++round) {
            CAPTURE(round);
            const auto values =
                trained_on(group, random, {.shard_size = shard_size, .average = true});
            CHECK(values == expected);
          }
        },
        kRanks, {.ranks = comm::Ranks::threads, .group = {.timeout = std::chrono::seconds(30)}});
}
