// Lesson 11: DDP in three lines. Each rank trains on its part of every batch. The gradients are
// summed during backward, so all ranks take the same step.
#include <doctest/doctest.h>

#include "in_rank_order.h"

using namespace ringlet;

namespace {

// Learns y = 2 x1 - x2 + 1 from 32 points; this rank uses its share of them.
std::vector<float> train_line(const comm::Group& world) {
  manual_seed(3);
  nn::Linear line(2, 1);
  train::DistributedDataParallel ddp(line, world);  // 1: attach
  train::Sgd optimizer(line, {.lr = 0.1});

  const std::int64_t points = 32, mine = points / world.size();
  const Tensor x = normal({points, 2}).slice(world.rank() * mine, (world.rank() + 1) * mine);
  std::vector<float> values;
  for (std::int64_t i = 0; i < mine; ++i)
    values.push_back(2 * x[i].to_vector()[0] - x[i].to_vector()[1] + 1);
  const Variable y(tensor(values, {mine, 1}));

  for (int step = 0; step < 60; ++step) {
    const Variable errors = line(Variable(x)) - y;
    // Sums divided by the points of all ranks: the parts add up to the mean over the whole batch.
    const Variable loss = autograd::sum(autograd::square(errors)) * (1.0 / points);
    loss.backward();   // 2: sums the gradients of all ranks
    optimizer.step();  // 3: the same step everywhere
    optimizer.zero_grad();
  }
  std::vector<float> learned = line.parameter("weight").tensor().to_vector();
  learned.push_back(line.parameter("bias").tensor().item());
  return learned;
}

}  // namespace

TEST_CASE("11 DDP") {
  const std::vector<float> alone = train_line(comm::Group());
  for (const int n : {2, 4})
    comm::launch(
        [&](const comm::Group& world) {
          const std::vector<float> learned = train_line(world);
          print_in_rank_order(world, str(n, " ranks, rank ", world.rank(), ": weight (", learned[0],
                                         ", ", learned[1], "), bias ", learned[2]));
          for (std::size_t i = 0; i < 3; ++i)
            CHECK(learned[i] == doctest::Approx(alone[i]).epsilon(1e-5));
        },
        n);
  CHECK(alone[0] == doctest::Approx(2).epsilon(0.01));
  CHECK(alone[1] == doctest::Approx(-1).epsilon(0.01));
  CHECK(alone[2] == doctest::Approx(1).epsilon(0.01));
}
