// The best of several evaluations is kept, and loaded at the end.
#include <doctest/doctest.h>

#include <cmath>

#include "../../device.h"
#include "../../files.h"
#include "../words.h"
#include "../words_loss.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/step/best_metric.h"
#include "ringlet/train/trainer.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// A run of 6 epochs of 2 steps, each evaluated; the scores are given.
struct Run {
  std::shared_ptr<words::Loss> loss = words::loss(2);
  std::vector<std::vector<float>> evaluated;  // parameters, by evaluation
  std::unique_ptr<Trainer> trainer;

  Run(const TrainingArguments& arguments, std::vector<double> scores) {
    trainer = std::make_unique<Trainer>(*loss, Datasets{words::dataset(8, 2)}, words::tokenizer(),
                                        arguments);
    trainer->add_evaluator([this, scores](const EvaluationPoint& at) {
      evaluated.push_back(parameter_values(*loss));
      return Metrics{{"dev_score", scores.at(static_cast<std::size_t>(at.step / 2 - 1))}};
    });
  }
};

TrainingArguments arguments_in(const std::filesystem::path& output) {
  return {.output_dir = output,
          .num_train_epochs = 6,
          .per_device_train_batch_size = 4,
          .learning_rate = 0.02,
          .logging_steps = 0,
          .eval_strategy = EvalStrategy::epoch,
          .save_strategy = SaveStrategy::no,
          .load_best_model_at_end = true,
          .metric_for_best_model = "dev_score"};
}

std::vector<std::string> checkpoints(const std::filesystem::path& output) {
  std::vector<std::string> names;
  for (const std::filesystem::path& path : list_folder(output))
    if (const std::string name = path.filename().string(); name.starts_with("checkpoint-"))
      names.push_back(name);
  return names;
}

const std::vector<double> kScores{0.2, 0.7, 0.5, 0.7, 0.1, 0.6};  // best: step 4

}  // namespace

TEST_CASE("a run ends with the model of its best evaluation, under every save strategy") {
  for (const SaveStrategy strategy :
       {SaveStrategy::no, SaveStrategy::steps, SaveStrategy::epoch, SaveStrategy::best}) {
    CAPTURE(kSaveStrategies(strategy));
    const TemporaryFolder folder;
    TrainingArguments arguments = arguments_in(folder / "out");
    arguments.save_strategy = strategy;
    arguments.save_steps = 5;
    Run run(arguments, kScores);
    const TrainingResult result = run.trainer->train();
    REQUIRE(result.best.has_value());
    CHECK(result.best->step == 4);  // a later one that is equal is not better
    CHECK(result.best->metric == 0.7);
    CHECK(parameter_values(*run.loss) == run.evaluated[1]);
    CHECK(run.evaluated[1] != run.evaluated[5]);
    CHECK(path_exists(folder / "out/checkpoint-4"));
    CHECK(path_exists(folder / "out/checkpoint-6") == (strategy == SaveStrategy::epoch));
  }
}

TEST_CASE("without load_best_model_at_end a run ends with its last model") {
  const TemporaryFolder folder;
  TrainingArguments arguments = arguments_in(folder / "out");
  arguments.load_best_model_at_end = false;
  arguments.save_strategy = SaveStrategy::best;
  Run run(arguments, kScores);
  CHECK(run.trainer->train().best->step == 4);
  CHECK(parameter_values(*run.loss) == run.evaluated[5]);
  CHECK(checkpoints(folder / "out") == std::vector<std::string>{"checkpoint-2", "checkpoint-4"});
}

TEST_CASE("a metric is better if greater, unless it is a loss or the arguments say otherwise") {
  const auto best_step = [](const std::string& metric, std::optional<bool> greater) {
    const TemporaryFolder folder;
    TrainingArguments arguments = arguments_in(folder / "out");
    arguments.metric_for_best_model = metric;
    arguments.greater_is_better = greater;
    Run run(arguments, kScores);
    run.trainer->add_evaluator([](const EvaluationPoint& at) {
      return Metrics{{"eval_loss", std::abs(static_cast<double>(at.step) - 8)}};  // 0 at step 8
    });
    return run.trainer->train().best->step;
  };
  CHECK(best_step("dev_score", std::nullopt) == 4);
  CHECK(best_step("eval_dev_score", std::nullopt) == 4);  // as Hugging Face's arguments name it
  CHECK(best_step("dev_score", false) == 10);
  CHECK(best_step("", std::nullopt) == 8);
  CHECK(best_step("loss", std::nullopt) == 8);
  CHECK(best_step("eval_loss", true) == 2);
}

TEST_CASE("a figure that is not finite is never the best") {
  const TemporaryFolder folder;
  Run run(arguments_in(folder / "out"), {NAN, 0.3, INFINITY, 0.2, NAN, 0.1});
  CHECK(run.trainer->train().best->step == 4);
  Run none(arguments_in(folder / "none"), std::vector<double>(6, NAN));
  std::vector<std::string> notes;
  none.trainer->add_callback({.on_note = [&](const std::string& line) { notes.push_back(line); }});
  CHECK(!none.trainer->train().best.has_value());
  // A device may have notes of its own before.
  REQUIRE(!notes.empty());
  CHECK(notes.back() ==
        "load best model at end: no evaluation had a finite figure, so the last model is kept");
  CHECK(parameter_values(*none.loss) == none.evaluated[5]);
}

TEST_CASE("save_total_limit never removes the best checkpoint or the last") {
  for (const std::size_t limit : {1u, 2u, 3u}) {
    CAPTURE(limit);
    const TemporaryFolder folder;
    TrainingArguments arguments = arguments_in(folder / "out");
    arguments.save_strategy = SaveStrategy::epoch;
    arguments.save_total_limit = limit;
    Run run(arguments, kScores);
    run.trainer->add_callback({.on_save = [&](const std::filesystem::path& saved) {
      CHECK(path_exists(saved / "trainer_state.json"));
      CHECK(list_folder(folder / "out").size() <= std::max<std::size_t>(2, limit) + 1);
    }});
    run.trainer->train();
    std::vector<std::string> expected{"checkpoint-12", "checkpoint-4"};
    if (limit == 3) expected.insert(expected.begin(), "checkpoint-10");
    CHECK(checkpoints(folder / "out") == expected);
  }
}

TEST_CASE("the last checkpoint is the run's, not a later one that an earlier run has left") {
  const TemporaryFolder folder;
  TrainingArguments arguments = arguments_in(folder / "out");
  arguments.load_best_model_at_end = false;
  arguments.metric_for_best_model.clear();
  arguments.save_strategy = SaveStrategy::epoch;
  Run(arguments, kScores).trainer->train();
  arguments.resume_from_checkpoint = folder / "out/checkpoint-2";
  arguments.save_total_limit = 1;
  Run run(arguments, kScores);
  run.trainer->add_callback(
      {.on_save = [&](const std::filesystem::path&) { run.trainer->stop(); }});
  run.trainer->train();
  CHECK(checkpoints(folder / "out") == std::vector<std::string>{"checkpoint-4"});
}

// On a GPU the stop would be a step later.
TEST_CASE_FIXTURE(OnCpu,
                  "stopped and resumed, a run has the best evaluation of the run that was not") {
  const TemporaryFolder folder;
  Run whole(arguments_in(folder / "whole"), kScores);
  whole.trainer->train();
  TrainingArguments arguments = arguments_in(folder / "out");
  {
    Run first(arguments, kScores);
    first.trainer->add_callback({.on_step_end = [&](const StepReport& at) {
      if (at.step == 7) first.trainer->stop(/*save=*/true);
    }});
    CHECK(first.trainer->train().saved_at_stop);
  }
  arguments.resume_from_checkpoint = folder / "out";
  Run second(arguments, kScores);
  const TrainingResult result = second.trainer->train();
  CHECK(second.evaluated.size() == 3);  // those after step 7
  CHECK(result.best->step == 4);
  CHECK(parameter_values(*second.loss) == parameter_values(*whole.loss));

  arguments.output_dir = folder / "elsewhere";  // the best model stays in the first folder
  Run moved(arguments, kScores);
  moved.trainer->add_callback(
      {.on_step_end = [&](const StepReport&) { moved.trainer->stop(/*save=*/true); }});
  CHECK(moved.trainer->train().best->step == 4);
  CHECK(parameter_values(*moved.loss) == parameter_values(*whole.loss));
  // A third folder goes on from the second, and the best model is in the first.
  arguments.resume_from_checkpoint = folder / "elsewhere";
  arguments.output_dir = folder / "last/run";
  Run again(arguments, kScores);
  CHECK(again.trainer->train().best->output_dir == "../../out");
  CHECK(parameter_values(*again.loss) == parameter_values(*whole.loss));

  std::filesystem::remove_all(folder / "out/checkpoint-4");
  arguments.resume_from_checkpoint = folder / "out/checkpoint-7/";
  Run third(arguments, kScores);
  const std::vector<float> before = parameter_values(*third.loss);
  const std::string line =
      (folder / "out/checkpoint-4").string() + ": the best model's checkpoint is missing";
  CHECK_THROWS_WITH_AS(third.trainer->train(), line.c_str(), InputError);
  CHECK(parameter_values(*third.loss) == before);

  arguments.metric_for_best_model = "loss";
  Run other(arguments, kScores);
  CHECK_THROWS_WITH_AS(other.trainer->train(),
                       ((folder / "out/checkpoint-7/").string() +
                        ": was trained with --metric-for-best-model dev_score, greater is better, "
                        "now loss, smaller is better")
                           .c_str(),
                       InputError);
}

TEST_CASE("a metric that no evaluator has is refused with those there are") {
  const TemporaryFolder folder;
  TrainingArguments arguments = arguments_in(folder / "out");
  arguments.metric_for_best_model = "eval_accuracy";
  Run run(arguments, kScores);
  CHECK_THROWS_WITH_AS(run.trainer->train(),
                       "metric_for_best_model: expected one of dev_score, found 'accuracy' "
                       "(training step 2)",
                       InputError);
  Trainer named(*run.loss, {words::dataset(8, 2)}, words::tokenizer(), arguments);
  named.add_callback({.on_train_begin = [](const TrainingArguments&) { FAIL("it begins"); }});
  named.add_eval_datasets({words::dataset(8, 2)});
  named.add_evaluator([](const EvaluationPoint&) { return Metrics{{"dev_f1", 1}}; }, {"dev_f1"});
  CHECK_THROWS_WITH_AS(named.train(),
                       "metric_for_best_model: expected one of eval_loss, dev_f1, found 'accuracy'",
                       InputError);
  Trainer none(*run.loss, {words::dataset(8, 2)}, words::tokenizer(), arguments);
  none.add_callback({.on_train_begin = [](const TrainingArguments&) { FAIL("it begins"); }});
  CHECK_THROWS_WITH_AS(none.train(),
                       "metric_for_best_model: expected an evaluator or an evaluation data set",
                       InputError);
}

TEST_CASE("early stopping ends a run after evaluations that are not better by the threshold") {
  const auto last_step = [](EarlyStoppingOptions options, std::vector<double> scores) {
    const TemporaryFolder folder;
    Run run(arguments_in(folder / "out"), std::move(scores));
    run.trainer->add_callback(early_stopping(*run.trainer, options));
    const TrainingResult result = run.trainer->train();
    CHECK(!result.saved_at_stop);
    const auto best = static_cast<std::size_t>(result.best->step / 2 - 1);
    CHECK(parameter_values(*run.loss) == run.evaluated[best]);
    return result.steps;
  };
  const std::vector<double> falls{0.5, 0.4, 0.6, 0.5, 0.5, 0.9};
  CHECK(last_step({.patience = 1}, falls) == 4);
  CHECK(last_step({.patience = 2}, falls) == 10);  // one better evaluation starts the count again
  CHECK(last_step({.patience = 3}, falls) == 12);
  const std::vector<double> creeps{0.5, 0.51, 0.52, 0.53, 0.54, 0.55};
  CHECK(last_step({.patience = 2}, creeps) == 12);
  CHECK(last_step({.patience = 2, .threshold = 0.015}, creeps) == 6);
  CHECK(last_step({.patience = 2, .threshold = 0.005}, creeps) == 12);
}

TEST_CASE("a resumed run counts on with early stopping") {
  const TemporaryFolder folder;
  const std::vector<double> scores{0.5, 0.4, 0.3, 0.2, 0.1, 0.0};
  TrainingArguments arguments = arguments_in(folder / "out");
  arguments.save_strategy = SaveStrategy::epoch;
  Run first(arguments, scores);
  first.trainer->add_callback(early_stopping(*first.trainer, {.patience = 3}));
  first.trainer->add_callback({.on_epoch_end = [&](std::size_t epoch) {
    if (epoch == 3) first.trainer->stop();  // after two evaluations that were not better
  }});
  const TrainingResult stopped = first.trainer->train();
  REQUIRE(stopped.steps == 6);
  arguments.resume_from_checkpoint = folder / "out/checkpoint-6";
  Run second(arguments, scores);
  second.trainer->add_callback(early_stopping(*second.trainer, {.patience = 3}));
  CHECK(second.trainer->train().steps == 8);
  arguments.resume_from_checkpoint = folder / "out/checkpoint-8";  // at its end
  Run third(arguments, scores);
  third.trainer->add_callback(early_stopping(*third.trainer, {.patience = 3}));
  CHECK(third.trainer->train().steps == 8);
  CHECK(parameter_values(*third.loss) == parameter_values(*second.loss));
}

TEST_CASE("early stopping without evaluations, a metric or patience is refused") {
  const TemporaryFolder folder;
  const auto refused = [&](const TrainingArguments& arguments, EarlyStoppingOptions options,
                           const char* line) {
    Run run(arguments, kScores);
    const auto train = [&] {
      run.trainer->add_callback(early_stopping(*run.trainer, options));
      run.trainer->train();
    };
    CHECK_THROWS_WITH_AS(train(), line, InputError);
    CHECK(!path_exists(folder / "out/checkpoint-2"));
  };
  TrainingArguments arguments = arguments_in(folder / "out");
  refused(arguments, {.patience = 0}, "early_stopping_patience: expected at least 1, found 0");
  refused(arguments, {.threshold = -1}, "early_stopping_threshold: expected 0 or more, found -1");
  arguments.load_best_model_at_end = false;
  arguments.eval_strategy = EvalStrategy::no;
  CHECK_THROWS_WITH_AS(Run(arguments, kScores),
                       "metric_for_best_model: expected eval_strategy steps or epoch, found no",
                       InputError);
  arguments.metric_for_best_model.clear();
  refused(arguments, {},
          "early stopping: expected metric_for_best_model or load_best_model_at_end");
}
