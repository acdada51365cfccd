// The trainer with the models of this project.
#include <doctest/doctest.h>

#include "../device.h"
#include "../files.h"
#include "results.h"
#include "ringlet/ringlet.h"
#include "step/graph_device.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

models::SentenceEncoder tiny_encoder() {
  const GeneratorGuard guard({5, 0, 0});
  return models::SentenceEncoder(words::encoder_config(models::Architecture::bert),
                                 words::tokenizer());
}

/// An encoder with a loss for each of two data sets.
struct Setup {
  models::SentenceEncoder encoder = tiny_encoder();
  std::shared_ptr<models::MultiLoss> loss = two_losses<models::CosineSimilarityLoss>(encoder);
};

}  // namespace

TEST_CASE("an encoder learns two data sets with a loss each, and resumes to the bit") {
  const Datasets data{words::dataset(24, 3), words::scored_dataset(24)};
  TemporaryFolder folder;
  TrainingArguments arguments{.output_dir = folder / "a",
                              .num_train_epochs = 2,
                              .per_device_train_batch_size = 4,
                              .gradient_accumulation_steps = 2,
                              .learning_rate = 1e-3,
                              .warmup_ratio = 0.1,
                              .weight_decay = 0.01};
  Setup straight;
  Trainer(*straight.loss, data, words::tokenizer(), arguments).train();
  CHECK(parameter_values(*straight.loss) != parameter_values(*Setup().loss));

  arguments.output_dir = folder / "b";
  arguments.save_steps = 8;
  {
    Setup first;
    Trainer trainer(*first.loss, data, words::tokenizer(), arguments);
    trainer.add_callback({.on_save = [&](const std::filesystem::path&) { trainer.stop(); }});
    CHECK(trainer.train().steps == 8);
  }
  arguments.resume_from_checkpoint = folder / "b";
  Setup second;
  CHECK(Trainer(*second.loss, data, words::tokenizer(), arguments).train().steps == 12);
  CHECK(parameter_values(*second.loss) == parameter_values(*straight.loss));
}

TEST_CASE("similarity rises by training on scores, also in bf16") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(dtype);
    const models::SentenceEncoder encoder = tiny_encoder();
    models::CosineSimilarityLoss loss(encoder);
    const EmbeddingSimilarityEvaluator evaluator(*words::scored_dataset(24), {.name = "words"});
    Trainer trainer(loss, {words::scored_dataset(24)}, words::tokenizer(),
                    {.num_train_epochs = 30,
                     .per_device_train_batch_size = 8,
                     .learning_rate = 3e-3,
                     .dtype = dtype,
                     .eval_strategy = EvalStrategy::epoch});
    trainer.add_evaluator(
        [&](const EvaluationPoint& at) { return evaluator.evaluate(encoder, at); });
    const TrainingResult result = trainer.train();
    CHECK(encoder.transformer()->compute_dtype() == dtype);
    const double before = *find_metric(result.epochs.front().metrics, "words_spearman_cosine");
    CHECK(result.epochs.back().loss < 0.5 * result.epochs.front().loss);
    CHECK(evaluator(encoder) > before);
    CHECK(evaluator(encoder) ==
          *find_metric(result.epochs.back().metrics, "words_spearman_cosine"));
  }
}

TEST_CASE("the convolutional network learns digits under the trainer") {
  const Digits digits = make_digits(/*seed=*/1, /*split=*/0, 192);
  const GeneratorGuard guard({7, 0, 0});
  models::Convnet model;
  const auto loss = [&](const DigitBatch& drawn) {
    const DigitBatch batch = drawn.to(default_device());
    return autograd::cross_entropy(model(Variable(batch.images), batch.positions), batch.labels,
                                   static_cast<double>(batch.labels.numel()));
  };
  Trainer trainer(model, digits.count,
                  [&](const Rows& rows) { return collate_digits(digits, rows); }, loss,
                  {.num_train_epochs = 3,
                   .per_device_train_batch_size = 32,
                   .learning_rate = 1e-3,
                   .lr_scheduler_type = Decay::constant,
                   .eval_strategy = EvalStrategy::epoch});
  trainer.add_evaluator([&](const EvaluationPoint&) {
    model.eval();
    ClassificationMeter meter;
    std::vector<std::size_t> rows(digits.count);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    const autograd::NoGrad no_grad;
    const DigitBatch batch = collate_digits(digits, Rows(rows)).to(default_device());
    meter.add(model(Variable(batch.images)).tensor(), batch.labels);
    return Metrics{{"accuracy", meter.accuracy()}};
  });
  const TrainingResult result = trainer.train();
  CHECK(result.epochs.back().loss < result.epochs.front().loss);
  CHECK(*find_metric(result.epochs.back().metrics, "accuracy") > 0.5);
}

TEST_CASE("a row with a negative of its own is a batch for MultipleNegativesRankingLoss") {
  const auto ranked = [](const std::string& name, std::vector<std::string> columns) {
    auto data = std::make_shared<TextDataset>(name, columns, Target::none);
    const std::vector<std::string_view> texts{"a b", "a c", "d"};
    for (int row = 0; row < 4; ++row) data->add_row(std::span(texts).first(columns.size()), 0);
    return data;
  };
  const auto pairs = ranked("pairs", {"anchor", "positive"});
  const auto triplets = ranked("triplets", {"anchor", "positive", "negative"});
  const models::SentenceEncoder encoder = tiny_encoder();
  const auto ranking = std::make_shared<models::MultipleNegativesRankingLoss>(encoder);
  const TrainingArguments one_row{.num_train_epochs = 1, .per_device_train_batch_size = 1};
  const TrainingResult result = Trainer(*ranking, {triplets}, encoder.tokenizer(), one_row).train();
  CHECK(result.steps == 4);
  CHECK(result.loss > 0);  // the losses differ from 0
  CHECK(result.lone_rows == 0);

  const char* refusal =
      "per_device_train_batch_size: expected at least 2 for the loss of pairs, found 1";
  CHECK_THROWS_WITH_AS(Trainer(*ranking, {pairs}, encoder.tokenizer(), one_row), refusal,
                       InputError);
  const auto cosine = std::make_shared<models::CosineSimilarityLoss>(encoder);
  models::MultiLoss second_needs_two(encoder.transformer(), {cosine, ranking});
  CHECK_THROWS_WITH_AS(
      Trainer(second_needs_two, {words::scored_dataset(24), pairs}, encoder.tokenizer(), one_row),
      refusal, InputError);
  CHECK_NOTHROW(Trainer(second_needs_two, {words::scored_dataset(24), triplets},
                        encoder.tokenizer(), one_row));
}

TEST_CASE_FIXTURE(OnCpu, "rows that are alone in their part of the last batch are counted") {
  const auto data = std::make_shared<TextDataset>(
      "pairs", std::vector<std::string>{"anchor", "positive"}, Target::none);
  const std::vector<std::string_view> texts{"a b", "a c"};
  for (int row = 0; row < 7; ++row) data->add_row(texts, 0);
  const models::SentenceEncoder encoder = tiny_encoder();
  using models::Negatives;
  const auto lone = [&](std::size_t batch, Strategy strategy, std::vector<Device> devices,
                        Negatives negatives = Negatives::global) {
    models::MultipleNegativesRankingLoss loss(encoder);
    loss.set_negatives(negatives);
    const TrainingArguments arguments{.num_train_epochs = 1,
                                      .per_device_train_batch_size = batch,
                                      .strategy = strategy,
                                      .devices = std::move(devices)};
    return Trainer(loss, {data}, encoder.tokenizer(), arguments).train().lone_rows;
  };
  CHECK(lone(7, Strategy::none, {}) == 0);
  CHECK(lone(5, Strategy::none, {}) == 0);  // 5 and 2
  CHECK(lone(3, Strategy::none, {}) == 1);  // 3, 3 and 1
  const std::vector<Device> two{{DeviceType::cpu, 0}, {DeviceType::cpu, 1}};
  CHECK(lone(2, Strategy::dp, two) == 0);                    // 4 and 3
  CHECK(lone(2, Strategy::dp, two, Negatives::local) == 1);  // 2 + 2 and 2 + 1

  const auto on_ranks = [&](std::size_t batch, Negatives negatives) {
    std::vector<std::int64_t> found(2);
    comm::launch(
        [&](const comm::Group& group) {
          models::MultipleNegativesRankingLoss loss(tiny_encoder());
          loss.set_negatives(negatives);
          const TrainingArguments arguments{.num_train_epochs = 1,
                                            .per_device_train_batch_size = batch,
                                            .strategy = Strategy::ddp};
          Trainer trainer(loss, {data}, encoder.tokenizer(), arguments, group);
          found[static_cast<std::size_t>(group.rank())] = trainer.train().lone_rows;
        },
        2);
    CHECK(found[0] == found[1]);  // over all ranks together
    return found[0];
  };
  CHECK(on_ranks(2, Negatives::global) == 0);
  CHECK(on_ranks(2, Negatives::local) == 1);
  CHECK(on_ranks(3, Negatives::global) == 1);  // 6 and 1
  CHECK(on_ranks(3, Negatives::local) == 1);   // 3 + 3 and 1 + 0
}
