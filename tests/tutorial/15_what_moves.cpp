// Lesson 15: the communication and memory of each strategy. Sharding saves memory but costs
// traffic. DDP and ZeRO-1 send 2 (n - 1) / n times the parameters per step, FSDP 3 (n - 1) / n
// times.
#include <doctest/doctest.h>

#include <cmath>
#include <iostream>

#include "ringlet.h"

using namespace ringlet;

namespace {

// Each layer is a unit: laid out, gathered and reduced as a whole.
struct Block : nn::Layer<Block> {
  std::shared_ptr<nn::Linear> linear =
      register_module("linear", std::make_shared<nn::Linear>(256, 256, /*with_bias=*/false));
  const char* kind() const override { return "Block"; }
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) { return autograd::tanh((*linear)(x)); }
};

struct Tower : nn::Layer<Tower> {
  std::vector<std::shared_ptr<Block>> blocks;
  Tower() {
    for (int i = 0; i < 8; ++i)
      blocks.push_back(register_module(str("block", i), std::make_shared<Block>()));
  }
  Variable forward(Variable x) {
    for (const auto& block : blocks) x = (*block)(x);
    return x;
  }
};

struct Cost {
  double moved;  // numbers that a rank sends per step
  double kept;   // numbers that a rank updates: each has two moments
};

Cost cost_of(train::Strategy strategy, const comm::Group& world) {
  manual_seed(1);
  Tower tower;
  const train::AttachedStrategy attached(strategy, tower, world, {});
  train::AdamW optimizer(tower);
  const Variable x(normal({4, 256}));
  std::uint64_t before = 0;
  for (int step = 0; step < 2; ++step) {
    before = world.stats().bytes_sent;
    autograd::mean(tower(x)).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  Cost cost{static_cast<double>(world.stats().bytes_sent - before) / sizeof(float), 0};
  for (const nn::LocalSlice& slice : tower.arena()->local_slices())
    cost.kept += static_cast<double>(slice.end - slice.begin);
  return cost;
}

// Ten characters for each time the parameters.
std::string bar(double times) { return std::string(std::lround(10 * times), '#'); }

}  // namespace

TEST_CASE("15 what moves") {
  const int n = 4;
  const auto parameters = static_cast<double>(Tower().num_parameters());
  std::cout << "4 ranks, in multiples of the parameters\nstrategy  sent in a step  updated here\n";
  const auto measure = [&](train::Strategy strategy, double rounds, double share) {
    comm::launch(
        [&](const comm::Group& world) {
          const Cost cost = cost_of(strategy, world);
          if (world.rank() == 0)
            std::cout << train::kStrategies(strategy) << "      " << cost.moved / parameters
                      << "        " << cost.kept / parameters << "\n"
                      << "  sent    " << bar(cost.moved / parameters) << "\n  updated "
                      << bar(cost.kept / parameters) << "\n";
          // In addition the norm and a few words of agreement are sent: less than a hundredth.
          const double expected = rounds * (n - 1) / n;
          CHECK(cost.moved / parameters >= doctest::Approx(expected).epsilon(0.02));
          CHECK(cost.moved / parameters <= doctest::Approx(expected).epsilon(0.02));
          CHECK(cost.kept / parameters == doctest::Approx(share).epsilon(0.02));
        },
        n);
  };
  measure(train::Strategy::ddp, 2, 1);
  measure(train::Strategy::zero1, 2, 0.25);
  measure(train::Strategy::zero2, 2, 0.25);
  measure(train::Strategy::fsdp, 3, 0.25);
}
