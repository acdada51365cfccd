#include "ringlet/ringlet.h"

#include <doctest/doctest.h>

#include <mutex>

#include "../../files.h"
#include "../../oracle.h"
#include "../words.h"
#include "../words_loss.h"
#include "ringlet/core/io/file.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// The mean over rows, each a batch, computed without the evaluator.
double mean_by_rows(words::Loss& loss, const std::shared_ptr<const TextDataset>& data) {
  Loader loader({data}, words::tokenizer(), {.batch_size = 1, .shuffle = false});
  loss.eval();
  double sum = 0;
  for (const models::PackedBatch& batch : loader)
    sum += loss(batch.to(default_device())).tensor().item<double>();
  loss.train();
  return sum / static_cast<double>(data->size());
}

}  // namespace

TEST_CASE("an evaluation's loss is the mean over all rows, without dropout or gradients") {
  const auto loss = words::loss(3);
  const auto data = words::dataset(11, 3);
  const ExampleEvaluator evaluator(
      *loss, data->size(), collate_texts(data, words::tokenizer(), {}),
      [&](const models::PackedBatch& batch) {
        return Metrics{{"eval_loss", (*loss)(batch).tensor().item<double>()}};
      },
      /*batch_size=*/4);
  const Metrics found = evaluator({});
  REQUIRE(found.size() == 1);
  CHECK(found[0].first == "eval_loss");
  // A chain of 11 roundings of each side.
  CHECK(std::abs(found[0].second - mean_by_rows(*loss, data)) <= 22 * kF32 * found[0].second);
  CHECK(loss->training());
  CHECK(!loss->weight.grad().defined());
  default_generator().next_step();  // would change dropout masks
  CHECK(evaluator({}) == found);
}

TEST_CASE("each evaluation adds the losses of the evaluation data sets, by the right loss") {
  const TemporaryFolder folder;
  const auto encoder = words::encoder();
  const auto first = words::loss(encoder, 3), second = words::loss(encoder, 2);
  models::MultiLoss loss(encoder, {first, second});
  const auto train = [&](const Datasets& eval, const std::vector<std::size_t>& like) {
    Trainer trainer(loss, {words::dataset(12, 3), words::dataset(12, 2)}, words::tokenizer(),
                    {.num_train_epochs = 1,
                     .per_device_train_batch_size = 4,
                     .per_device_eval_batch_size = 3,
                     .eval_strategy = EvalStrategy::epoch});
    trainer.add_eval_datasets(eval, like);
    return trainer.train().epochs.at(0).metrics;
  };
  const auto a = words::dataset(7, 2, "a.csv"), b = words::dataset(5, 3, "b.csv");
  const Metrics one = train({a}, {1});
  REQUIRE(one.size() == 1);
  CHECK(one[0].first == "eval_loss");
  CHECK(one[0].second == doctest::Approx(mean_by_rows(*second, a)).epsilon(1e-6));
  CHECK(std::abs(one[0].second - mean_by_rows(*first, a)) > 1e-4);
  const Metrics two = train({b, a}, {});  // in the order of the training data sets
  REQUIRE(two.size() == 2);
  CHECK(two[0].first == "eval_b_loss");
  CHECK(two[1].first == "eval_a_loss");
  CHECK(two[0].second == doctest::Approx(mean_by_rows(*first, b)).epsilon(1e-6));
  CHECK(two[1].second == doctest::Approx(mean_by_rows(*second, a)).epsilon(1e-6));
  CHECK_THROWS_WITH_AS(train({a, b}, {1}), "[trainer] 2 evaluation data sets, and the losses of 1",
                       Error);
  CHECK_THROWS_WITH_AS(train({a}, {2}), "[trainer] training data set 2 of 2", Error);
  CHECK_THROWS_WITH_AS(train({words::scored_dataset(6)}, {}),
                       "scores: expected columns like those of words", InputError);
}

TEST_CASE("examples that are evaluated have the loss hook's mean, in metrics and epochs") {
  struct Scale : nn::Module {
    nn::Parameter factor = register_parameter("factor", zeros({1}));
  } scale;
  const auto collate = [](double begin) {
    return [=](const Rows& rows) {
      std::vector<float> x;
      for (const std::size_t row : rows) x.push_back(static_cast<float>(begin + double(row)));
      return tensor(x, {static_cast<std::int64_t>(rows.size())}).to(default_device());
    };
  };
  const auto squared_error = [&](const Tensor& x) {
    return autograd::mean(autograd::square(Variable(x) * scale.factor - Variable(x)));
  };
  const TemporaryFolder folder;
  Trainer trainer(scale, 8, collate(0), squared_error,
                  {.output_dir = folder / "out",
                   .num_train_epochs = 2,
                   .per_device_train_batch_size = 4,
                   .per_device_eval_batch_size = 2,
                   .learning_rate = 0.01,
                   .eval_strategy = EvalStrategy::epoch});
  trainer.add_eval_dataset(3, collate(1));  // 1, 2 and 3
  std::vector<double> expected;             // (1 + 4 + 9) / 3 (factor - 1)^2
  trainer.add_callback({.on_evaluate = [&](const EvaluationReport&) {
    const double off = scale.factor.tensor().item<double>() - 1;
    expected.push_back(14.0 / 3 * off * off);
  }});
  const TrainingResult result = trainer.train();
  REQUIRE(result.epochs.size() == 2);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(find_metric(result.epochs[i].metrics, "eval_loss").value() ==
          doctest::Approx(expected.at(i)).epsilon(1e-5));
  CHECK(epoch_table(result).find("Validation Loss") != std::string::npos);
  CHECK(read_file(folder / "out/metrics.jsonl").find("\"eval_loss\":") != std::string::npos);
  const auto other = [](const Rows& rows) { return rows.size(); };
  CHECK_THROWS_WITH_AS(trainer.add_eval_dataset(3, other),
                       "[trainer] evaluation batches: expected those of the trained examples",
                       Error);
}

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
