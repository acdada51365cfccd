#include "ringlet/train/step/task.h"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <set>

#include "ringlet/core/base/error.h"
#include "ringlet/train/trainer.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("an epoch has every example once, in an order of its own, the rest in a last step") {
  const Sampler sampler(10, {.seed = 3, .batch_size = 4});
  REQUIRE(sampler.steps_per_epoch() == 3);
  std::vector<std::size_t> order[2];
  for (std::size_t epoch = 0; epoch < 2; ++epoch)
    for (std::size_t step = 0; step < 3; ++step)
      for (const std::size_t row : sampler.batch(epoch, step).rows) order[epoch].push_back(row);
  CHECK(std::set<std::size_t>(order[0].begin(), order[0].end()).size() == 10);
  CHECK(order[0].size() == 10);
  CHECK(order[0] != order[1]);
  CHECK(sampler.batch(0, 2).rows.size() == 2);
  CHECK_THROWS_AS(sampler.batch(0, 3), Error);
}

TEST_CASE("unshuffled examples come as they are") {
  const Sampler sampler(3, {.batch_size = 2, .shuffle = false});
  CHECK(sampler.batch(5, 0).rows == std::vector<std::size_t>{0, 1});
  CHECK(sampler.batch(5, 1).rows == std::vector<std::size_t>{2});
}

TEST_CASE("no examples and empty batches are refused") {
  CHECK_THROWS_WITH_AS(Sampler(0, {}), "examples: expected at least one, found none", InputError);
  CHECK_THROWS_AS(Sampler(3, {.batch_size = 0}), InputError);
}

TEST_CASE("micro-batches of a step weigh by their rows and know their place") {
  // The loss of a batch is its mean; the gradient of `scale` is then the step's mean.
  struct Scale : nn::Module {
    nn::Parameter scale = register_parameter("scale", ones({1}));
  } module;
  std::vector<std::size_t> firsts;
  const auto collate = [&](const Rows& rows) {
    firsts.push_back(rows.first);
    float sum = 0;
    for (const std::size_t row : rows) sum += static_cast<float>(row);
    return sum / static_cast<float>(rows.size());
  };
  const auto loss = [&](const float& mean) { return module.scale * static_cast<double>(mean); };
  Task<float> task(module, 7, collate, loss,
                   {.batch_size = 3, .accumulation = 3, .shuffle = false});
  const StepResult result = task.step();
  CHECK(firsts == std::vector<std::size_t>{0, 3, 6});
  CHECK(result.rows == 7);
  CHECK(task.take_loss().value() == doctest::Approx(3).epsilon(1e-6));
  CHECK(task.take_loss().value() == 0);
  CHECK(module.scale.grad().item() == doctest::Approx(3).epsilon(1e-6));
}

TEST_CASE("arguments for sentences are refused with examples, and shuffle counts") {
  struct Scale : nn::Module {
    nn::Parameter scale = register_parameter("scale", ones({1}));
  } module;
  std::vector<std::size_t> seen;
  const auto collate = [&](const Rows& rows) {
    seen.insert(seen.end(), rows.begin(), rows.end());
    return 0.f;
  };
  const auto loss = [&](const float&) { return module.scale; };
  const auto train = [&](const TrainingArguments& arguments) {
    Trainer(module, 6, collate, loss, arguments).train();
  };
  TrainingArguments arguments{
      .num_train_epochs = 1, .per_device_train_batch_size = 2, .save_strategy = SaveStrategy::no};
  arguments.shuffle = false;
  train(arguments);
  CHECK(seen == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  CHECK_THROWS_WITH_AS(Trainer(std::make_unique<Task<float>>(module, 6, collate, loss), arguments),
                       "shuffle: expected a task that takes its rows in their order", InputError);
  const auto refused = [&](const std::string& name, auto TrainingArguments::*argument, auto value) {
    TrainingArguments with = arguments;
    with.*argument = value;
    CHECK_THROWS_WITH_AS(train(with), (name + ": only tasks of sentences have it").c_str(),
                         InputError);
  };
  refused("mini_batch_size", &TrainingArguments::mini_batch_size, std::size_t{2});
  refused("multi_dataset_batch_sampler", &TrainingArguments::multi_dataset_batch_sampler,
          Dealing::round_robin);
  refused("batch_sampler", &TrainingArguments::batch_sampler, BatchSampler::no_duplicates);
  refused("max_length", &TrainingArguments::max_length, std::int64_t{8});
  refused("prompts", &TrainingArguments::prompts, Prompts{{"", "query: "}});
  refused("padded", &TrainingArguments::padded, true);
}

TEST_CASE("a refused step leaves no loss behind for the run that follows") {
  struct Scale : nn::Module {
    nn::Parameter scale = register_parameter("scale", ones({1}));
  } module;
  double factor = std::numeric_limits<double>::quiet_NaN();
  const auto collate = [](const Rows& rows) { return static_cast<float>(rows.size()); };
  const auto loss = [&](const float&) { return module.scale * factor; };
  Trainer trainer(std::make_unique<Task<float>>(module, 4, collate, loss),
                  {.max_steps = 1, .learning_rate = 0});
  CHECK_THROWS_AS(trainer.train(), Error);
  factor = 2;
  CHECK(trainer.train().loss == 2);
}
