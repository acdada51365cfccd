#include "ringlet/train/evaluators/example_evaluator.h"

#include <doctest/doctest.h>

#include <mutex>

#include "ringlet/comm/launch.h"
#include "ringlet/nn/layers.h"
#include "ringlet/train/trainer.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("every example counts once in an evaluation, on any number of ranks") {
  std::mutex mutex;
  for (const int n : {1, 2, 3}) {
    comm::launch(
        [&](const comm::Group& world) {
          nn::Dropout module;
          const ExampleEvaluator evaluator(
              module, 7, [](const Rows& rows) { return std::vector(rows.begin(), rows.end()); },
              [&](const std::vector<std::size_t>& rows) {
                double sum = 0;
                for (const std::size_t row : rows) sum += static_cast<double>(row);
                const std::lock_guard lock(mutex);
                CHECK(!module.training());
                CHECK(!autograd::grad_enabled());
                return Metrics{{"eval_mean", sum / static_cast<double>(rows.size())}};
              },
              /*batch_size=*/2);
          const Metrics found = evaluator({.group = world});
          const std::lock_guard lock(mutex);
          REQUIRE(found.size() == 1);
          CHECK(found[0].first == "eval_mean");
          CHECK(found[0].second == doctest::Approx(3).epsilon(1e-15));
          CHECK(module.training());
        },
        n);
  }
}

TEST_CASE("the table of epochs has a column for each figure") {
  TrainingResult result;
  CHECK(epoch_table(result).empty());
  result.epochs = {{1, 0.8757, {{"eval_loss", 0.2826}, {"eval_accuracy", 0.9}, {"f1", 1}}},
                   {2, 0.25, {{"eval_loss", 12.5}, {"eval_accuracy", 0.95}, {"f1", 0.5}}}};
  CHECK(epoch_table(result) ==
        "Epoch  Training Loss  Validation Loss  Accuracy  F1\n"
        "1      0.875700       0.282600         0.900000  1.000000\n"
        "2      0.250000       12.500000        0.950000  0.500000\n");
}
