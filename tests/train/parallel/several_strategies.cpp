// Modules with strategies in one graph, over one Group, and graphs that are used again. Ranks
// allocate differently, so that the strategies lie in another order on half of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "every_strategy.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/train/optimizer/update_rules.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr std::int64_t kNumel = 2 * 4096;

struct Factor final : nn::Layer<Factor> {
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) { return autograd::mul(x, weight); }
  nn::Parameter weight = register_parameter("weight", full({kNumel}, 0.5));
};

/// y = scale(x) bias + bias: a unit, and a parameter outside every unit that backward reads.
struct Tower final : nn::Layer<Tower> {
  explicit Tower(double value) : bias(register_parameter("bias", full({kNumel}, value))) {}
  Variable forward(const Variable& x) {
    return autograd::add(autograd::mul((*scale)(x), bias), bias);
  }
  std::shared_ptr<Factor> scale = register_module("scale", std::make_shared<Factor>());
  nn::Parameter bias;
};

struct Towers {
  Tower first{1}, second{-2};
  /// Two steps. The graph of each runs backward twice.
  void train(Sgd& of_first, Sgd& of_second, double x) {
    for (int step = 0; step < 2; ++step) {
      const Variable loss = autograd::sum(autograd::mul(first(Variable(full({kNumel}, x))),
                                                        second(Variable(full({kNumel}, 1 - x)))));
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      for (Sgd* optimizer : {&of_first, &of_second}) {
        optimizer->step();
        optimizer->zero_grad();
      }
    }
  }
  std::vector<float> values() const {
    std::vector<float> all = parameter_values(first);
    for (const float value : parameter_values(second)) all.push_back(value);
    return all;
  }
};

std::vector<float> trained_on(const comm::Group& group, const FullyShardedOptions& options) {
  std::vector<std::string> blocks;
  for (std::size_t i = 0; i < 2000; ++i) blocks.emplace_back(300 + 7 * i % 3000, 'x');
  Towers towers;
  const FullySharded first(towers.first, group, options);
  if (group.rank() % 2 == 1) blocks.clear();  // the second strategy may lie before the first
  const FullySharded second(towers.second, group, options);
  Sgd of_first(towers.first), of_second(towers.second);
  // Every rank has the same rows, and each counts a part.
  towers.train(of_first, of_second, 0.25);
  return towers.values();
}

}  // namespace

TEST_CASE("two strategies on one group end with one device's weights, wherever they lie") {
  Towers alone;
  Sgd of_first(alone.first), of_second(alone.second);
  alone.train(of_first, of_second, 0.25);
  const std::vector<float> expected = alone.values();
  for (const int shard_size : {0, 2})
    comm::launch(
        [&](const comm::Group& group) {
          const auto values = trained_on(group, {.shard_size = shard_size, .average = true});
          float worst = 0;
          for (std::size_t i = 0; i < expected.size(); ++i)
            worst = std::max(worst, std::abs(values.at(i) - expected[i]));
          CHECK(worst < 1e-6);
        },
        4, {.ranks = comm::Ranks::threads, .group = {.timeout = std::chrono::seconds(30)}});
}

TEST_CASE("a graph from before an update has no backward, under every strategy") {
  for (const auto& attach : tiny::each_strategy())
    comm::launch(
        [&](const comm::Group& group) {
          Tower tower(1);
          const auto attached = attach(tower, group);
          Sgd optimizer(tower);
          const Variable loss = autograd::sum(tower(Variable(ones({kNumel}))));
          loss.backward({}, /*retain_graph=*/true);
          optimizer.step();
          CHECK(message_of([&] { loss.backward(); }).find("to after forward, and backward needs") !=
                std::string::npos);
        },
        2, {.ranks = comm::Ranks::threads});
}
