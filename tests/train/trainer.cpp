#include "ringlet/ringlet.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "../comm/environment.h"
#include "../files.h"
#include "../oracle.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/argument_table.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/step/sentence_task.h"
#include "words.h"
#include "words_loss.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const TrainingArguments kQuick{.num_train_epochs = 3,
                               .per_device_train_batch_size = 4,
                               .learning_rate = 0.02,
                               .logging_steps = 1};

/// Trains on 24 labelled pairs of words.
Trainer words_trainer(models::Loss& loss, const TrainingArguments& arguments = kQuick) {
  return Trainer(loss, {words::dataset(24, 2)}, words::tokenizer(), arguments);
}

TrainingArguments with_output(TrainingArguments arguments, const std::filesystem::path& output) {
  arguments.output_dir = output;
  return arguments;
}

std::size_t lines(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("training lowers the loss and writes a line of metrics a step") {
  TemporaryFolder folder;
  const auto loss = words::loss(2);
  TrainingArguments arguments = with_output(kQuick, folder / "out");
  arguments.num_train_epochs = 20;
  Trainer trainer = words_trainer(*loss, arguments);
  std::vector<double> seen;
  trainer.add_callback(
      {.on_step_end = [&](const StepReport& report) { seen.push_back(report.result.loss); }});
  const TrainingResult result = trainer.train();
  CHECK(result.steps == 120);
  CHECK(trainer.total_steps() == 120);
  CHECK(result.rows == 20 * 24);
  CHECK(seen.size() == 120);
  CHECK(result.epochs.size() == 20);
  CHECK(result.epochs.back().loss < 0.7 * result.epochs.front().loss);
  CHECK(lines(folder / "out" / "metrics.jsonl") == 120);
}

TEST_CASE("the rate of every step is the schedule's") {
  const auto loss = words::loss(2);
  const auto start = parameter_values(*loss);
  TrainingArguments arguments = kQuick;
  arguments.learning_rate = 0.5;
  arguments.warmup_steps = 2;
  arguments.max_steps = 4;
  Trainer trainer = words_trainer(*loss, arguments);
  std::vector<double> rates;
  trainer.add_callback({.on_step_end = [&](const StepReport& report) {
    rates.push_back(report.lr);
    // A warm-up begins at 0. An asynchronous device reports a step after the next one was enqueued.
    if (!is_asynchronous(default_device()))
      CHECK((parameter_values(*loss) == start) == (report.step == 1));
  }});
  trainer.train();
  CHECK(rates == std::vector<double>{0, 0.25, 0.5, 0.25});
}

TEST_CASE("stopped, saved and resumed in fresh objects, training ends with the same bits") {
  const auto data = words::dataset(26, 3), more = words::dataset(9, 2);
  const auto make = [] {
    const auto encoder = words::encoder();
    return std::make_shared<models::MultiLoss>(
        encoder, std::vector<std::shared_ptr<models::Loss>>{words::loss(encoder, 3),
                                                            words::loss(encoder, 2)});
  };
  TrainingArguments arguments{.num_train_epochs = 3,
                              .per_device_train_batch_size = 2,
                              .gradient_accumulation_steps = 2,
                              .learning_rate = 0.02,
                              .warmup_ratio = 0.2,
                              .weight_decay = 0.01,
                              .logging_steps = 4};
  SUBCASE("AdamW") {}
  SUBCASE("SGD") { arguments.optim = OptimizerKind::sgd; }
  SUBCASE("SGD with momentum") {
    arguments.optim = OptimizerKind::sgd;
    arguments.momentum = 0.9;
  }
  TemporaryFolder folder;

  const auto straight = make();
  Trainer whole(*straight, {data, more}, words::tokenizer(), with_output(arguments, folder / "a"));
  const TrainingResult undisturbed = whole.train();
  CHECK(undisturbed.steps == 3 * (7 + 3));

  for (const std::int64_t stop : {1, 10, 13}) {  // immediately, between and inside epochs
    CAPTURE(stop);
    const std::string name = str("b", stop);
    TrainingArguments part = with_output(arguments, folder / name);
    part.save_steps = stop;
    {
      const auto loss = make();
      Trainer first(*loss, {data, more}, words::tokenizer(), part);
      first.add_callback({.on_save = [&](const std::filesystem::path&) { first.stop(); }});
      CHECK(first.train().steps == stop);
    }
    part.resume_from_checkpoint = part.output_dir;
    const auto loss = make();
    manual_seed(99);  // other random numbers of the thread have no effect
    Trainer second(*loss, {data, more}, words::tokenizer(), part);
    const TrainingResult resumed = second.train();
    CHECK(resumed.steps == 30);
    CHECK(resumed.loss == undisturbed.loss);
    for (const TrainingResult::Epoch& epoch : resumed.epochs)
      CHECK(epoch.loss == undisturbed.epochs[epoch.epoch - 1].loss);
    CHECK(parameter_values(*loss) == parameter_values(*straight));
    CHECK(loss_lines(folder / name) == loss_lines(folder / "a"));
  }
}

TEST_CASE("micro-batches give the loss and gradients of the whole batch, dropout on") {
  const auto gradients = [](std::size_t batch, std::size_t accumulation) {
    const auto loss = words::loss(3);
    SentenceTask task(*loss, {words::dataset(24, 3)}, words::tokenizer(),
                      {.batch_size = batch, .accumulation = accumulation});
    const StepResult result = task.step();
    CHECK(result.rows == 8);
    std::vector<Tensor> all{tensor({static_cast<float>(task.take_loss().value())})};
    for (const nn::Parameter& parameter : loss->parameters()) all.push_back(parameter.grad());
    return all;
  };
  const std::vector<Tensor> whole = gradients(8, 1);
  for (const std::size_t accumulation : {2u, 4u, 8u}) {
    CAPTURE(accumulation);
    const std::vector<Tensor> parts = gradients(8 / accumulation, accumulation);
    // The parts of eight rows, each a chain of about eight roundings, added in another order.
    for (std::size_t i = 0; i < whole.size(); ++i) check_close(parts[i], whole[i], 16 * kF32);
  }
}

TEST_CASE("evaluators run after each epoch or every so many steps; their figures are kept") {
  TemporaryFolder folder;
  const auto loss = words::loss(2);
  TrainingArguments arguments = with_output(kQuick, folder / "out");
  std::vector<std::int64_t> expected;
  SUBCASE("no") {}
  SUBCASE("epoch") {
    arguments.eval_strategy = EvalStrategy::epoch;
    expected = {6, 12, 18};
  }
  SUBCASE("epoch, and at the last step of one that is cut short") {
    arguments.eval_strategy = EvalStrategy::epoch;
    arguments.num_train_epochs = 1.5;
    expected = {6, 9};
  }
  SUBCASE("steps, and at the last") {
    arguments.eval_strategy = EvalStrategy::steps;
    arguments.eval_steps = 4;
    expected = {4, 8, 12, 16, 18};
  }
  SUBCASE("steps, those of logging") {
    arguments.eval_strategy = EvalStrategy::steps;
    arguments.logging_steps = 9;
    expected = {9, 18};
  }
  Trainer trainer = words_trainer(*loss, arguments);
  std::vector<std::int64_t> at;
  trainer.add_evaluator([&](const EvaluationPoint& point) {
    loss->eval();  // an evaluator may do this
    at.push_back(point.step);
    return Metrics{{"score", static_cast<double>(point.step)}};
  });
  std::size_t told = 0;
  trainer.add_callback({.on_step_end = [&](const StepReport&) { CHECK(loss->training()); },
                        .on_evaluate =
                            [&](const EvaluationReport& found) {
                              ++told;
                              CHECK(*find_metric(found.metrics, "score") ==
                                    static_cast<double>(found.at.step));
                              CHECK(!found.improvement.has_value());
                            }});
  const TrainingResult result = trainer.train();
  CHECK(at == expected);
  CHECK(told == expected.size());
  for (const TrainingResult::Epoch& epoch : result.epochs) {
    const auto end = static_cast<std::int64_t>(6 * epoch.epoch);
    const bool evaluated = std::ranges::find(expected, end) != expected.end();
    CHECK(find_metric(epoch.metrics, "score").has_value() == evaluated);
  }
}

TEST_CASE("files of a save that was killed are removed when the run starts again") {
  const TemporaryFolder folder;
  const std::filesystem::path output = folder / "out";
  const auto leave = [&](const std::filesystem::path& file) {
    make_folders((output / file).parent_path());
    write_file(output / file, "");
  };
  leave(".checkpoint-10.D2Hd58/model.safetensors.tmp.8759.4");
  leave(".checkpoint-2.aaaaaa/model.safetensors");
  leave("metrics.jsonl.tmp.8759.0");
  leave("eval/similarity_evaluation_results.csv.tmp.8759.1");
  leave(".notes.backup/mine");  // not a checkpoint's file
  const auto loss = words::loss(2);
  TrainingArguments arguments = with_output(kQuick, output);
  arguments.save_strategy = SaveStrategy::no;
  words_trainer(*loss, arguments).train();
  std::vector<std::string> left;
  for (const std::filesystem::path& path : list_folder(output))
    left.push_back(path.filename().string());
  CHECK(left == std::vector<std::string>{".notes.backup", "eval", "metrics.jsonl"});
  CHECK(list_folder(output / "eval").empty());
}

TEST_CASE("an error in a step names the step, and that it evaluated or saved") {
  const TemporaryFolder folder;
  const auto loss = words::loss(2);
  const auto said = [&](TrainingArguments arguments, const TrainerCallback& callbacks) {
    Trainer trainer = words_trainer(*loss, arguments);
    trainer.add_callback(callbacks);
    try {
      trainer.train();
    } catch (const InputError& error) {
      return std::string("input: ") + error.what();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto at_3 = [](const StepReport& at) {
    if (at.step == 3) fail("it rains");
  };
  CHECK(said(kQuick, {.on_step_end = at_3}) == "it rains (training step 3)");
  TrainingArguments evaluating = kQuick;
  evaluating.eval_strategy = EvalStrategy::epoch;
  Trainer evaluated = words_trainer(*loss, evaluating);
  evaluated.add_evaluator([](const EvaluationPoint&) -> Metrics { fail("no memory"); });
  CHECK_THROWS_WITH_AS(evaluated.train(), "no memory (training step 6, evaluating)", Error);
  TrainingArguments saving = with_output(kQuick, folder / "out");
  saving.save_steps = 2;
  make_folders(folder / "out");
  write_file(folder / "out" / "checkpoint-2", "no folder");
  const std::string refused = said(saving, {});
  CHECK(refused.starts_with("input: "));
  CHECK(
      refused.ends_with("expected a folder, found a file (training step 2, saving a checkpoint)"));
}

TEST_CASE("a run that is told to stop saves after the step in progress, and resumes from there") {
  TemporaryFolder folder;
  TrainingArguments arguments = with_output(kQuick, folder / "out");
  arguments.eval_strategy = EvalStrategy::steps;
  arguments.eval_steps = 1;
  const auto loss = words::loss(2);
  const auto trainer_of = [&](const TrainingArguments& of) {
    auto trainer =
        std::make_unique<Trainer>(*loss, Datasets{words::dataset(24, 2)}, words::tokenizer(), of);
    trainer->add_evaluator([](const EvaluationPoint& at) {
      append_csv(at.output / "table.csv", "steps,score", {static_cast<double>(at.step), 1});
      return Metrics{{"score", 1}};
    });
    return trainer;
  };
  const auto first = trainer_of(arguments);
  first->add_callback({.on_step_end = [&](const StepReport& at) {
    if (at.step == 5) first->stop(/*save=*/true);
  }});
  CHECK(first->train().steps == 5);
  REQUIRE(std::filesystem::exists(folder / "out" / "checkpoint-5"));
  // As if it had continued and been killed: data from after the checkpoint is removed.
  append_csv(folder / "out" / "eval" / "table.csv", "steps,score", {6, 0});
  arguments.resume_from_checkpoint = arguments.output_dir;
  CHECK(trainer_of(arguments)->train().steps == 18);
  std::string table = "steps,score\n";
  for (int step = 1; step <= 18; ++step) table += str(step, ",1\n");
  CHECK(read_file(folder / "out" / "eval" / "table.csv") == table);

  Trainer nowhere = words_trainer(*loss);
  CHECK_THROWS_WITH_AS(nowhere.stop(true), "[trainer] there is no output folder for a checkpoint",
                       Error);
}

TEST_CASE("a checkpoint does not go on with other data or another length") {
  TemporaryFolder folder;
  TrainingArguments arguments = with_output(kQuick, folder / "out");
  arguments.save_steps = 4;
  const auto loss = words::loss(2);
  words_trainer(*loss, arguments).train();
  CHECK(path_exists(folder / "out/checkpoint-18"));  // the last step has one, too
  arguments.resume_from_checkpoint = folder / "out" / "checkpoint-4";
  const std::string at = arguments.resume_from_checkpoint.string();
  const auto text = [](std::size_t rows) {
    return str(rows, " rows, SHA-256 ", words::dataset(rows, 2)->digest());
  };
  Trainer shorter(*loss, {words::dataset(20, 2)}, words::tokenizer(), arguments);
  CHECK_THROWS_WITH_AS(shorter.train(),
                       (at + ": was trained with --data " + text(24) + ", now " + text(20) +
                        "; steps (--epochs, --max-steps) 18, now 15")
                           .c_str(),
                       InputError);
  arguments.num_train_epochs = 4;
  Trainer longer = words_trainer(*loss, arguments);
  CHECK_THROWS_WITH_AS(longer.train(),
                       (at + ": was trained with steps (--epochs, --max-steps) 18, now 24").c_str(),
                       InputError);
  Trainer more(*loss, {words::dataset(24, 2), words::dataset(8, 2)}, words::tokenizer(), arguments);
  CHECK_THROWS_WITH_AS(more.train(),
                       (at + ": was trained with --data 2 none, now " + text(8) +
                        "; --loss 2 none, now Module; steps (--epochs, --max-steps) 18, now 32")
                           .c_str(),
                       InputError);
}

TEST_CASE("a checkpoint does not go on with another argument of its updates, which is named") {
  TemporaryFolder folder;
  TrainingArguments arguments = with_output(kQuick, folder / "out");
  arguments.save_steps = 4;
  arguments.warmup_ratio = 0.1;
  const auto loss = words::loss(2);
  const auto train = [&] { words_trainer(*loss, arguments).train(); };
  train();
  arguments.resume_from_checkpoint = folder / "out" / "checkpoint-4";
  const auto refused = [&](auto TrainingArguments::*argument, auto value,
                           const std::string& difference) {
    const TrainingArguments before = arguments;
    arguments.*argument = value;
    const std::string line =
        arguments.resume_from_checkpoint.string() + ": was trained with " + difference;
    CHECK_THROWS_WITH_AS(train(), line.c_str(), InputError);
    arguments = before;
  };
  refused(&TrainingArguments::learning_rate, 0.02 + 1e-12,  // compared exactly
          "--lr 0.02, now 0.020000000001");
  refused(&TrainingArguments::lr_scheduler_type, Decay::constant,
          "--schedule linear, now constant");
  refused(&TrainingArguments::warmup_steps, 3, "warm-up steps (--warmup) 2, now 3");
  refused(&TrainingArguments::weight_decay, 0.01, "--weight-decay 0, now 0.01");
  const std::string adamw = "--optimizer adamw, beta1 0.9, beta2 0.999, eps 1e-08, now ";
  refused(&TrainingArguments::adam_beta1, 0.8, adamw + "adamw, beta1 0.8, beta2 0.999, eps 1e-08");
  refused(&TrainingArguments::adam_beta2, 0.99, adamw + "adamw, beta1 0.9, beta2 0.99, eps 1e-08");
  refused(&TrainingArguments::adam_epsilon, 1e-6,
          adamw + "adamw, beta1 0.9, beta2 0.999, eps 1e-06");
  refused(&TrainingArguments::max_grad_norm, 0.0, "largest gradient norm (--clip) 1, now 0");
  refused(&TrainingArguments::optim, OptimizerKind::sgd, adamw + "sgd, --momentum 0");
  refused(&TrainingArguments::parameter_groups,
          std::vector<ParameterGroup>{{.parameters = {"embeddings", "bias"}, .lr = 1e-3}},
          "parameter groups none, now embeddings,bias lr 0.001");
  arguments.warmup_ratio = 0;
  refused(
      &TrainingArguments::lr_lambda, [](std::int64_t) { return 0.5; },
      "--schedule linear, now lr_lambda of values with SHA-256 232aee78eabb44db; warm-up steps "
      "(--warmup) 2, "
      "now 0");
  arguments.warmup_steps = 2;  // the same in another form
  train();
  CHECK_THROWS_WITH_AS(Trainer(*loss, {words::dataset(8, 2)}, words::tokenizer(),
                               {.per_device_train_batch_size = 4, .momentum = 0.9}),
                       "momentum: only sgd has it; adamw has betas", InputError);

  arguments.resume_from_checkpoint.clear();
  arguments.optim = OptimizerKind::sgd;
  train();  // without momentum there are no moments to read
  arguments.resume_from_checkpoint = folder / "out" / "checkpoint-4";
  refused(&TrainingArguments::momentum, 0.5,
          "--optimizer sgd, --momentum 0, now sgd, --momentum 0.5");
  refused(&TrainingArguments::optim, OptimizerKind::adamw,
          "--optimizer sgd, --momentum 0, now adamw, beta1 0.9, beta2 0.999, eps 1e-08");
}

TEST_CASE("SGD's updates are those of the optimizer by hand") {
  TrainingArguments arguments = kQuick;
  arguments.optim = OptimizerKind::sgd;
  arguments.momentum = 0.9;
  arguments.weight_decay = 0.01;
  arguments.parameter_groups = {{.parameters = {"embeddings"}, .lr = 0.01, .weight_decay = 0.1}};
  arguments.lr_lambda = [](std::int64_t step) { return 1 / (1 + static_cast<double>(step)); };
  const auto trained = words::loss(2), by_hand = words::loss(2);
  words_trainer(*trained, arguments).train();

  const GeneratorGuard guard(RandomGenerator{arguments.seed, 0, 0});
  SentenceTask task(*by_hand, {words::dataset(24, 2)}, words::tokenizer(),
                    {.batch_size = 4, .seed = arguments.seed});
  Sgd sgd(*by_hand, {.lr = arguments.learning_rate,
                     .momentum = 0.9,
                     .weight_decay = 0.01,
                     .groups = arguments.parameter_groups,
                     .max_grad_norm = 1});
  for (std::int64_t step = 0; step < 18; ++step) {
    sgd.set_lr_factor(arguments.lr_lambda(step));
    task.step();
    sgd.step();
    sgd.zero_grad();
  }
  CHECK(parameter_values(*trained) == parameter_values(*by_hand));
}

TEST_CASE("with ema_decay evaluations and the end of a run have the average") {
  TemporaryFolder folder;
  TrainingArguments arguments = with_output(kQuick, folder / "out");
  arguments.eval_strategy = EvalStrategy::epoch;
  arguments.save_steps = 9;
  const auto run = [&](const std::shared_ptr<words::Loss>& loss) {
    std::vector<std::vector<float>> seen;
    Trainer trainer = words_trainer(*loss, arguments);
    trainer.add_evaluator([&](const EvaluationPoint&) {
      seen.push_back(parameter_values(*loss));
      return Metrics{};
    });
    trainer.train();
    return seen;
  };
  const auto plain = words::loss(2), average = words::loss(2), resumed = words::loss(2);
  const auto of_steps = run(plain);
  arguments.ema_decay = 0.9;
  const auto of_averages = run(average);
  CHECK(of_averages.back() == parameter_values(*average));
  CHECK(of_steps.back() != of_averages.back());
  arguments.resume_from_checkpoint = folder / "out" / "checkpoint-9";
  CHECK(run(resumed).back() == of_averages.back());
  CHECK(parameter_values(*resumed) == parameter_values(*average));
  arguments.ema_decay = 0.8;
  CHECK_THROWS_WITH_AS(run(resumed), doctest::Contains("ema_decay 0.9, now 0.8"), InputError);
}

TEST_CASE("a training that ended in one world is not trained again in the next" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const auto rank_main = [&](const comm::Group& group) {
    const auto loss = words::loss(2);
    std::optional<Snapshot> left;
    std::vector<float> weights;
    for (const bool again : {false, true}) {
      Trainer trainer(*loss, {words::dataset(24, 2)}, words::tokenizer(),
                      {.output_dir = folder / "out",
                       .per_device_train_batch_size = 4,
                       .ema_decay = 0.5,
                       .strategy = Strategy::ddp,
                       .save_strategy = SaveStrategy::no,
                       .audit_steps = 1},
                      group);
      trainer.add_callback({.on_step_end = [&](const StepReport&) { trainer.stop(); }});
      trainer.set_snapshot(std::exchange(left, {}));
      RINGLET_CHECK_EQ(trainer.train().steps, 1, "steps");
      left = trainer.take_snapshot();
      const std::vector<float> now = loss->weight.tensor().to_vector();
      RINGLET_CHECK(!again || now == weights, "the average changed places again");
      weights = now;
    }
  };
  comm::launch(rank_main, 2, {.ranks = comm::Ranks::threads, .group = {.elastic = true}});
}

TEST_CASE("paths that cannot be written to are InputError that names them") {
  const auto loss = words::loss(2);
  const auto refused = [&](const std::filesystem::path& output, const std::string& line) {
    Trainer trainer(*loss, {words::dataset(8, 2)}, words::tokenizer(), with_output(kQuick, output));
    CHECK_THROWS_WITH_AS(trainer.train(), line.c_str(), InputError);
  };
  refused("/proc/x", "/proc/x: cannot make the folder: No such file or directory");
  TemporaryFolder folder;
  write_file(folder / "file", "");
  const std::string below = (folder / "file" / "out").string();
  refused(below, below + ": cannot make the folder: Not a directory");
}

TEST_CASE("a loss that does not reach a parameter is named") {
  struct Forgetful : words::Loss {
    Forgetful() : words::Loss(words::encoder(), 2) {
      forgotten = register_parameter("pooler.weight", ones({2, 2}));
    }
    nn::Parameter forgotten;
  } loss;
  Trainer trainer(loss, {words::dataset(8, 2)}, words::tokenizer(), kQuick);
  CHECK_THROWS_WITH_AS(trainer.train(),
                       "[trainer] the loss of words gives no gradient to: pooler.weight "
                       "(training step 1)",
                       Error);
  loss.forgotten.set_requires_grad(false);
  CHECK(trainer.train().steps == 6);
}

TEST_CASE("with a loss each, only the head of the batch's data set moves") {
  const auto encoder = words::encoder();
  const auto nli = words::loss(encoder, 3), other = words::loss(encoder, 2);
  models::MultiLoss loss(encoder, {nli, other});
  std::vector<std::string> names;
  for (const auto& named : loss.named_parameters()) names.push_back(named.name);
  CHECK(names == std::vector<std::string>{"embeddings.weight", "losses.0.classifier.weight",
                                          "losses.0.classifier.bias", "losses.1.classifier.weight",
                                          "losses.1.classifier.bias"});

  TrainingArguments arguments = kQuick;
  arguments.multi_dataset_batch_sampler = Dealing::round_robin;
  arguments.max_steps = 1;
  Trainer trainer(loss, {words::dataset(8, 3), words::dataset(8, 2)}, words::tokenizer(),
                  arguments);
  const auto nli_before = nli->weight.tensor().to_vector();
  const auto other_before = other->weight.tensor().to_vector();
  trainer.train();
  CHECK(nli->weight.tensor().to_vector() != nli_before);
  CHECK(other->weight.tensor().to_vector() == other_before);
}

TEST_CASE("losses of several data sets are apart, under the names of their files") {
  TemporaryFolder folder;
  const auto encoder = words::encoder();
  models::MultiLoss loss(encoder, {words::loss(encoder, 2), words::loss(encoder, 2)});
  TrainingArguments arguments = with_output(kQuick, folder / "out");
  arguments.multi_dataset_batch_sampler = Dealing::round_robin;
  arguments.num_train_epochs = 1;
  Trainer trainer(
      loss, {words::dataset(8, 2, "/data/a/train.csv"), words::dataset(8, 2, "b/train.jsonl")},
      words::tokenizer(), arguments);
  double sums[2] = {0, 0};
  trainer.add_callback({.on_step_end = [&](const StepReport& report) {
    sums[report.result.dataset] += report.result.loss;
  }});
  const TrainingResult result = trainer.train();
  CHECK(result.steps == 4);
  CHECK(result.dataset_losses == Metrics{{"train", sums[0] / 2}, {"train-2", sums[1] / 2}});
  const std::string metrics = read_file(folder / "out" / "metrics.jsonl");
  CHECK(metrics.find("\"loss_train\":") != std::string::npos);
  CHECK(metrics.find("\"loss_train-2\":") != std::string::npos);
  CHECK(metrics.find('/') == std::string::npos);
}

TEST_CASE("several ranks without a strategy are told which ones there are") {
  comm::launch(
      [](const comm::Group& group) {
        const auto loss = words::loss(2);
        CHECK_THROWS_WITH_AS(Trainer(*loss, {words::dataset(8, 2)}, words::tokenizer(),
                                     {.per_device_train_batch_size = 4}, group),
                             doctest::Contains("found 2; several need strategy ddp, "), InputError);
      },
      2, {.ranks = comm::Ranks::threads});
}

TEST_CASE("a trainer without a group reads no variables of a launcher") {
  const auto loss = words::loss(2);
  // Incomplete: there is no MASTER_PORT.
  with_environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}},
                   [&] { CHECK(words_trainer(*loss).train().steps == 3 * 6); });
}

TEST_CASE("any module trains on examples, given a collate function and a loss hook") {
  // y = 3 x - 1 by least squares.
  struct Line : nn::Module {
    nn::Parameter slope = register_parameter("slope", zeros({1}));
    nn::Parameter offset = register_parameter("offset", zeros({1}));
  } line;
  struct Batch {
    Tensor x, y;
  };
  const auto collate = [](std::span<const std::size_t> rows) {
    std::vector<float> x, y;
    for (const std::size_t row : rows) {
      x.push_back(static_cast<float>(row) / 10);
      y.push_back(3 * x.back() - 1);
    }
    const Shape shape{static_cast<std::int64_t>(rows.size())};
    return Batch{tensor(x, shape), tensor(y, shape)};
  };
  const auto squared_error = [&](const Batch& batch) {
    return mean(square(Variable(batch.x) * line.slope + line.offset - Variable(batch.y)));
  };
  Trainer trainer(line, 30, collate, squared_error,
                  {.num_train_epochs = 60,
                   .per_device_train_batch_size = 4,
                   .gradient_accumulation_steps = 2,
                   .learning_rate = 0.2});
  CHECK(trainer.total_steps() == 60 * 4);
  const TrainingResult result = trainer.train();
  CHECK(result.rows == 60 * 30);
  CHECK(line.slope.item() == doctest::Approx(3).epsilon(0.02));
  CHECK(line.offset.item() == doctest::Approx(-1).epsilon(0.02));
}

TEST_CASE("with gradient checkpointing the bits are the same, and the peak of memory is lower") {
  const auto trained = [](bool checkpointing, std::vector<float>& weights) {
    const GeneratorGuard seeded(RandomGenerator{7, 0, 0});
    models::EncoderConfig config = words::encoder_config(models::Architecture::mpnet);
    config.num_hidden_layers = 6;
    const models::SentenceEncoder encoder(config, words::tokenizer());
    models::SoftmaxLoss loss(encoder, 2);
    TrainingArguments arguments = kQuick;
    arguments.gradient_checkpointing = checkpointing;
    words_trainer(loss, arguments).train();
    weights = parameter_values(loss);
    return memory_stats(default_device()).peak;
  };
  std::vector<float> plain, recomputed;
  reset_peak_memory(default_device());
  const std::size_t most = trained(false, plain);
  reset_peak_memory(default_device());
  CHECK(trained(true, recomputed) < most);
  CHECK(plain == recomputed);
}

TEST_CASE("arguments that make no sense are refused before the first step") {
  const auto loss = words::loss(2);
  check_arguments({.logical_ranks = 4096}, /*ranks=*/1);  // the most of `ringlet run -n`
  const auto refuse = [&](TrainingArguments arguments, const char* message) {
    CHECK_THROWS_WITH_AS(
        Trainer(*loss, {words::dataset(8, 2)}, words::tokenizer(), arguments).train(), message,
        InputError);
  };
  refuse({.per_device_train_batch_size = 0},
         "per_device_train_batch_size: expected a whole number from 1 to 1048576, found 0");
  refuse({.per_device_train_batch_size = 9},
         "per_device_train_batch_size: expected at most the 8 rows of words, found 9");
  refuse({.learning_rate = -1}, "learning_rate: expected 0 or a number from 1e-12 to 10, found -1");
  refuse({.learning_rate = 100},
         "learning_rate: expected 0 or a number from 1e-12 to 10, found 100");
  refuse({.momentum = 2}, "momentum: expected a number from 0 to 1, found 2");
  refuse({.adam_beta1 = -1}, "adam_beta1: expected 0 or more, found -1");
  refuse({.seed = std::uint64_t{1} << 63},
         "seed: expected a whole number from 0 to 9223372036854775807, found 9223372036854775808");
  refuse({.pipeline = {.layers = {2, 0}}},
         "pipeline_layers: expected a whole number from 1 to 1048576, found 0");
  refuse({.warmup_ratio = 2}, "warmup_ratio: expected a number from 0 to 1, found 2");
  refuse({.save_steps = 0}, "save_strategy steps: expected save_steps of at least 1, found 0");
  refuse({.num_train_epochs = 0}, "num_train_epochs: expected more than 0, found 0");
  refuse({.logging_steps = 0, .eval_strategy = EvalStrategy::steps},
         "eval_strategy steps: expected eval_steps or logging_steps above 0");
  refuse({.load_best_model_at_end = true},
         "load_best_model_at_end: expected eval_strategy steps or epoch, found no");
  refuse({.eval_strategy = EvalStrategy::epoch, .save_strategy = SaveStrategy::best},
         "save_strategy best: expected an output folder for the checkpoints");
  refuse({.dtype = DType::f16}, "dtype: expected f32 or bf16, found f16");
  refuse({.dtype = DType::bf16}, "dtype: bf16 is for transformers, and this module holds none");
  refuse({.gradient_checkpointing = true},
         "gradient_checkpointing is for transformers, and this module holds none");
  refuse({.per_device_train_batch_size = 4,
          .gradient_accumulation_steps = 2,
          .batch_sampler = BatchSampler::group_by_label},
         "batch_sampler group_by_label: the loss of words would see 2 parts of a step, which "
         "separate the rows of a label; expected one device and one batch a step, or a loss with "
         "global negatives");
  refuse({.gradient_accumulation_steps = 0},
         "gradient_accumulation_steps: expected a whole number from 1 to 1048576, found 0");
}
