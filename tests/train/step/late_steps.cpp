// On an asynchronous device, a trainer reads the results of a step while the next one runs.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../../files.h"
#include "../results.h"
#include "graph_device.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/train/trainer.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

TrainingArguments quick_run(std::int64_t steps) {
  return {.max_steps = steps,
          .per_device_train_batch_size = 8,
          .learning_rate = 1e-2,
          .lr_scheduler_type = Decay::constant,
          .logging_steps = 2,
          .shuffle = false};
}

/// Pairs with scores; that of row 26, in step 4, is NaN unless `is_good`.
Datasets scores(bool is_good) {
  auto data = std::make_shared<TextDataset>("scores", std::vector<std::string>{"one", "other"},
                                            Target::score);
  for (std::size_t i = 0; i < 80; ++i) {
    const std::string first = words::text(i), second = words::text(i * 3);
    data->add_row(std::vector<std::string_view>{first, second},
                  is_good || i != 26 ? 0.1 * static_cast<double>(i % 10) : NAN);
  }
  return {data};
}

}  // namespace

TEST_CASE(
    "a steady step never waits until the device has nothing left to do, and uploads three things") {
  const GraphDevice graphs;
  if (!graphs.delayed) {
    MESSAGE("skipped: only a device of delayed_device.h can tell");
    return;
  }
  for (const StepGraphMode mode : {StepGraphMode::automatic, StepGraphMode::off}) {
    const models::SentenceEncoder encoder = encoder_on(graphs.device, 0.1);
    models::SoftmaxLoss loss(encoder, 3);
    TrainingArguments arguments = quick_run(12);
    arguments.logging_steps = 1;
    arguments.step_graphs = mode;
    Trainer trainer(loss, {words::dataset(200, 3)}, words::tokenizer(), arguments);
    std::vector<int> ran_dry, uploads;
    trainer.add_callback({.on_step_end = [&](const StepReport&) {
      ran_dry.push_back(graphs.delayed->ran_dry());
      uploads.push_back(graphs.delayed->uploads());
    }});
    const TrainingResult result = trainer.train();
    CHECK((result.replayed_steps >= 9) == (mode == StepGraphMode::automatic));
    REQUIRE(ran_dry.size() == 12);
    // The last step has no next one.
    for (std::size_t i = 2; i < 11; ++i) CHECK(ran_dry[i] == ran_dry[1]);
    CHECK(ran_dry[11] > ran_dry[10]);
    // The batch, the keys of dropout, and the rate with bias corrections.
    for (std::size_t i = 3; i < 11; ++i) CHECK(uploads[i] - uploads[i - 1] == 3);
  }
}

TEST_CASE("a gradient that is not finite is found behind the next step, which updates nothing") {
  const GraphDevice graphs;
  for (const StepGraphMode mode : {StepGraphMode::automatic, StepGraphMode::off}) {
    const auto train = [&](std::int64_t steps, bool is_good, std::vector<std::int64_t>& seen) {
      const models::SentenceEncoder encoder = encoder_on(graphs.device);
      models::CosineSimilarityLoss loss(encoder);
      TrainingArguments arguments = quick_run(steps);
      arguments.step_graphs = mode;
      Trainer trainer(loss, scores(is_good), words::tokenizer(), arguments);
      trainer.add_callback({.on_step_end = [&](const StepReport& at) { seen.push_back(at.step); }});
      const std::string said = message_of([&] { trainer.train(); });
      return std::pair(said, parameter_values(loss));
    };
    std::vector<std::int64_t> seen;
    const auto bad = train(12, false, seen);
    CHECK(bad.first.starts_with("[optimizer] the gradient of '"));
    CHECK(bad.first.ends_with(" is not finite; nothing was updated (training step 4)"));
    CHECK(seen == std::vector<std::int64_t>{1, 2, 3});
    const auto good = train(3, true, seen);
    CHECK(good.first.empty());
    CHECK(bad.second == good.second);
  }
}

TEST_CASE("saved, stopped and resumed, steps that are read late have the same bits and lines") {
  const GraphDevice graphs;
  const TemporaryFolder folder;
  TrainingArguments arguments = quick_run(12);
  arguments.output_dir = folder / "out";
  arguments.save_steps = 5;
  const auto train = [&](std::int64_t stop_at) {
    const models::SentenceEncoder encoder = encoder_on(graphs.device, 0.1);
    models::CosineSimilarityLoss loss(encoder);
    Trainer trainer(loss, scores(true), words::tokenizer(), arguments);
    trainer.add_callback({.on_step_end = [&](const StepReport& at) {
      if (at.step == stop_at) trainer.stop(/*save=*/true);
    }});
    CHECK(trainer.train().steps == (stop_at > 0 ? stop_at + 1 : 12));
    return std::pair(parameter_values(loss), loss_lines(arguments.output_dir));
  };
  const auto whole = train(0);
  REQUIRE(whole.second.size() == 6);
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(whole.second[i].starts_with(str("{\"step\":", 2 * (i + 1), ',')));
  arguments.resume_from_checkpoint = folder / "out" / "checkpoint-5";
  CHECK(train(0) == whole);
  arguments.output_dir = folder / "stopped";
  arguments.resume_from_checkpoint.clear();
  train(6);
  arguments.resume_from_checkpoint = folder / "stopped" / "checkpoint-7";
  CHECK(train(0) == whole);
}
