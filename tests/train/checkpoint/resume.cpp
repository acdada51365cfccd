// Replaces single values of trainer_state.json: a run continues to the same bits, or fails with one
// line that names the checkpoint.
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/core/io/json.h"

#include <doctest/doctest.h>

#include <optional>

#include "../../device.h"
#include "../../files.h"
#include "../words.h"
#include "../words_loss.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/tests/json_path.h"
#include "ringlet/train/checkpoint/checkpoint_state.h"
#include "ringlet/train/trainer.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr std::int64_t kSaved = 5;  // of 3 epochs of 4 steps

/// A run of two data sets, or its rest after the checkpoint.
struct Training {
  std::shared_ptr<words::Encoder> encoder = words::encoder();
  models::MultiLoss loss{encoder, {words::loss(encoder, 2), words::loss(encoder, 3)}};

  TrainingResult run(const TrainingArguments& arguments, std::int64_t stop_at = 0) {
    Trainer trainer(loss, {words::dataset(8, 2), words::dataset(8, 3)}, words::tokenizer(),
                    arguments);
    trainer.add_callback({.on_step_end = [&](const StepReport& at) {
      if (at.step == stop_at) trainer.stop(/*save=*/true);
    }});
    return trainer.train();
  }
};

/// The error message; none if the run continued.
std::optional<std::string> refusal(const TrainingArguments& arguments,
                                   const std::vector<float>& expected) {
  Training training;
  const std::vector<float> before = parameter_values(training.loss);
  try {
    training.run(arguments);
  } catch (const InputError& error) {
    CHECK(parameter_values(training.loss) == before);
    return error.what();
  }
  CHECK(parameter_values(training.loss) == expected);
  return std::nullopt;
}

struct Fixture : OnCpu {  // on a GPU steps are saved one step later
  TemporaryFolder folder;
  TrainingArguments arguments{.output_dir = folder / "out",
                              .num_train_epochs = 3,
                              .per_device_train_batch_size = 4,
                              .learning_rate = 0.02,
                              .logging_steps = 2,
                              .save_strategy = SaveStrategy::no};
  std::filesystem::path state = folder / "out" / str("checkpoint-", kSaved) / "trainer_state.json";
  std::vector<float> expected;
  Json saved;

  Fixture() {
    TrainingArguments whole = arguments;
    whole.output_dir.clear();
    Training straight, stopped;
    straight.run(whole);
    expected = parameter_values(straight.loss);
    stopped.run(arguments, kSaved);
    saved = Json::parse(read_file(state));
    arguments.resume_from_checkpoint = arguments.output_dir;
  }

  std::optional<std::string> with(const Json& json) {
    write_file(state, json.dump());
    checkpoint::write_digests(state.parent_path());
    const std::optional<std::string> line = refusal(arguments, expected);
    if (line) CHECK(line->starts_with(state.parent_path().string()));
    if (line) CHECK(line->find('\n') == line->npos);
    return line;
  }
  std::optional<std::string> with(const char* pointer, const Json& value) {
    Json changed = saved;
    value_at(changed, pointer) = value;
    return with(changed);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a refusal says which number it is, what was expected and what found") {
  const std::string file = state.string();
  CHECK_FALSE(with(saved));
  for (const char* number : {"step", "lone_rows"})
    for (const auto& [value, found] :
         {std::pair(Json(-1), "-1"), {Json(0.5), "0.5"}, {Json(), "null"}})
      CHECK(*with(str('/', number).c_str(), value) ==
            str(file, ": ", number, ": expected a whole number from 0 to 9223372036854775807, got ",
                found));
  Json best = saved;
  best["best_metric"] = 0.5;
  CHECK(*with(best) == file +
                           ": best_global_step: expected a whole number from 0 to "
                           "9223372036854775807, got null");
  best["best_global_step"] = 5;
  CHECK_FALSE(with(best));
  CHECK(*with("/callbacks", Json{{"patience", -1}}) ==
        file +
            ": callbacks.patience: expected a whole number from 0 to 9223372036854775807, got -1");
}

TEST_CASE_FIXTURE(Fixture,
                  "a folder that only has a checkpoint's name is passed over with a line") {
  std::filesystem::create_directory(folder / "out" / "checkpoint-35");
  std::filesystem::create_directory(folder / "out" / "checkpoint-1");
  Training training;
  Trainer trainer(training.loss, {words::dataset(8, 2), words::dataset(8, 3)}, words::tokenizer(),
                  arguments);
  std::vector<std::string> lines;
  trainer.add_callback({.on_note = [&](const std::string& line) { lines.push_back(line); }});
  CHECK(trainer.train().steps == 12);
  CHECK(parameter_values(training.loss) == expected);
  REQUIRE(!lines.empty());
  CHECK(lines[0] == (folder / "out" / "checkpoint-35").string() +
                        ": is no checkpoint (no trainer_state.json) and is passed over");
}
