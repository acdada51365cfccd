#include <doctest/doctest.h>

#include "../device.h"
#include "../files.h"
#include "../message.h"
#include "ringlet/comm/launch.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/report/progress.h"
#include "ringlet/train/step/trainer_callback.h"
#include "ringlet/train/trainer.h"
#include "words.h"
#include "words_loss.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

using Events = std::vector<std::string>;

/// Names every event, after `who`.
TrainerCallback recorder(Events& events, const std::string& who = "") {
  const auto add = [&events, who](const auto&... parts) { events.push_back(str(who, parts...)); };
  return {.on_train_begin = [=](const TrainingArguments&) { add("train begins"); },
          .on_epoch_begin = [=](std::size_t epoch) { add("epoch ", epoch, " begins"); },
          .on_step_end = [=](const StepReport& at) { add("step ", at.step); },
          .on_log = [=](const LogReport& at) { add("log ", at.metrics[0].first, " ", at.step); },
          .on_evaluate = [=](const EvaluationReport& found) { add("evaluate ", found.at.step); },
          .on_save = [=](const std::filesystem::path& at) { add("save ", at.filename().string()); },
          .on_epoch_end = [=](std::size_t epoch) { add("epoch ", epoch, " ends"); },
          .on_train_end = [=](const TrainingResult& result) { add("train ends ", result.steps); }};
}

/// Two epochs of two steps, an evaluation and a checkpoint after each.
struct CallbackFixture : OnCpu {  // on a GPU a step is reported while the next one is in flight
  TemporaryFolder folder;
  std::shared_ptr<words::Loss> loss = words::loss(2);
  Trainer trainer{*loss,
                  {words::dataset(8, 2)},
                  words::tokenizer(),
                  {.output_dir = folder / "out",
                   .num_train_epochs = 2,
                   .per_device_train_batch_size = 4,
                   .logging_steps = 2,
                   .eval_strategy = EvalStrategy::epoch,
                   .save_strategy = SaveStrategy::epoch}};
  CallbackFixture() {
    trainer.add_evaluator([](const EvaluationPoint&) { return Metrics{{"score", 1}}; });
  }
};

}  // namespace

TEST_CASE_FIXTURE(CallbackFixture, "the events of a run are in the documented order") {
  Events events;
  trainer.add_callback(recorder(events));
  trainer.train();
  CHECK(events == Events{"train begins", "epoch 1 begins", "step 1", "step 2", "log loss 2",
                         "log score 2", "evaluate 2", "save checkpoint-2", "epoch 1 ends",
                         "epoch 2 begins", "step 3", "step 4", "log loss 4", "log score 4",
                         "evaluate 4", "save checkpoint-4", "epoch 2 ends", "train ends 4"});
}

TEST_CASE_FIXTURE(CallbackFixture,
                  "callbacks of one event are called in the order they were added") {
  Events events;
  trainer.add_callback(recorder(events, "first: "));
  trainer.add_callback({.on_step_end = [&](const StepReport&) { trainer.stop(); }});
  trainer.add_callback(recorder(events, "second: "));
  trainer.train();
  CHECK(events == Events{"first: train begins", "second: train begins", "first: epoch 1 begins",
                         "second: epoch 1 begins", "first: step 1", "second: step 1",
                         "first: epoch 1 ends", "second: epoch 1 ends", "first: train ends 1",
                         "second: train ends 1"});
}

TEST_CASE_FIXTURE(CallbackFixture,
                  "a stop that an event after the checkpoint requests leaves one there") {
  TrainingArguments arguments{.output_dir = folder / "out",
                              .num_train_epochs = 2,
                              .per_device_train_batch_size = 4,
                              .save_strategy = SaveStrategy::no};
  Trainer stopped(*loss, {words::dataset(8, 2)}, words::tokenizer(), arguments);
  stopped.add_callback({.on_epoch_end = [&](std::size_t) { stopped.stop(/*save=*/true); }});
  const TrainingResult result = stopped.train();
  CHECK(result.steps == 2);
  CHECK(result.saved_at_stop);
  CHECK(latest_checkpoint(folder / "out") == folder / "out/checkpoint-2");
}

TEST_CASE_FIXTURE(CallbackFixture,
                  "a callback's count that no checkpoint could bring back is refused") {
  trainer.add_callback({.state = [] { return CallbackState{{"left", -1}}; }});
  CHECK_THROWS_WITH_AS(trainer.train(),
                       "[trainer] a callback's count left: expected 0 or more, found -1 (training "
                       "step 2, saving a checkpoint)",
                       Error);
}

TEST_CASE_FIXTURE(CallbackFixture,
                  "counts of callbacks are kept in checkpoints; two of one name are not") {
  std::int64_t steps = 0, loaded = -1;
  trainer.add_callback(
      {.on_step_end = [&](const StepReport&) { ++steps; },
       .state =
           [&] {
             return CallbackState{{"steps", steps}};
           },
       .load_state = [&](const CallbackState& state) { loaded = state.at("steps"); }});
  trainer.train();
  CHECK(loaded == -1);
  TrainingArguments again{.num_train_epochs = 2,
                          .per_device_train_batch_size = 4,
                          .resume_from_checkpoint = folder / "out/checkpoint-2"};
  Trainer second(*loss, {words::dataset(8, 2)}, words::tokenizer(), again);
  second.add_callback(
      {.load_state = [&](const CallbackState& state) { loaded = state.at("steps"); }});
  second.train();
  CHECK(loaded == 2);

  trainer.add_callback({.state = [] { return CallbackState{{"steps", 0}}; }});
  CHECK_THROWS_WITH_AS(
      trainer.train(),
      "[trainer] two callbacks keep a count steps (training step 2, saving a checkpoint)", Error);
}

TEST_CASE("the end of a peer is the error, also if a callback's state fails then" *
          doctest::test_suite("host")) {
  std::string error;
  const auto rank_main = [&](const comm::Group& group) {
    const auto loss = words::loss(2);
    Trainer trainer(*loss, {words::dataset(24, 2)}, words::tokenizer(),
                    {.per_device_train_batch_size = 4, .strategy = Strategy::ddp}, group);
    const bool ends = group.rank() == 1;
    trainer.add_callback(
        {.on_step_end = [&](const StepReport&) { RINGLET_CHECK(!ends, "has its reasons"); },
         .state =
             [] {
               return CallbackState{{"left", -1}};
             }});
    if (ends) trainer.train();
    error = message_of([&] { trainer.train(); });
  };
  CHECK_THROWS_AS(comm::launch(rank_main, 2, {.ranks = comm::Ranks::threads}), Error);
  CHECK_MESSAGE(error.find("rank 1: has its reasons") == 0, error);
}

TEST_CASE("the header has the figures of Hugging Face's") {
  const auto loss = words::loss(2);  // 9 x 8 + 16 x 2 + 2 parameters
  const Trainer trainer(*loss, {words::dataset(1004, 2), words::dataset(40, 2)}, words::tokenizer(),
                        {.num_train_epochs = 1.5,
                         .per_device_train_batch_size = 4,
                         .gradient_accumulation_steps = 2});
  CHECK(trainer.header() ==
        "***** Running training *****\n"
        "  Num examples = 1,044\n"
        "  Num Epochs = 2\n"
        "  Instantaneous batch size per device = 4\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 8\n"
        "  Gradient Accumulation steps = 2\n"
        "  Total optimization steps = 197\n"  // 126 + 5 of an epoch, and half as many
        "  Number of trainable parameters = 106\n");
}

TEST_CASE("the header counts the devices, and the parameters that are trained") {
  comm::launch(
      [](const comm::Group& group) {
        const auto loss = words::loss(2);
        loss->bias.set_requires_grad(false);
        const Trainer trainer(
            *loss, {words::dataset(24, 2)}, words::tokenizer(),
            {.max_steps = 7, .per_device_train_batch_size = 4, .strategy = Strategy::fsdp}, group);
        const std::string header = trainer.header();
        const auto has = [&](const char* line) {
          RINGLET_CHECK(header.find(line) != header.npos, line, " is not in ", header);
        };
        has("accumulation) = 8\n");
        has("Num Epochs = 3\n");  // of three steps each
        has("optimization steps = 7\n");
        has("trainable parameters = 104\n");
      },
      2, {.ranks = comm::Ranks::threads});
}
