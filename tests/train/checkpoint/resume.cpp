// Replaces single numbers of trainer_state.json: a run continues to the same bits, or fails with
// one line that names the checkpoint.
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
#include "ringlet/train/checkpoint/checkpoint_digests.h"
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

/// The paths of the numbers in a JSON value.
void find_numbers(const Json& json, const std::string& at, std::vector<std::string>& found) {
  if (json.is_number()) found.push_back(at);
  if (json.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) find_numbers(json[i], str(at, '/', i), found);
  if (json.is_object())
    for (const auto& [key, value] : json.items()) find_numbers(value, at + '/' + key, found);
}

std::string last_key(const std::string& at) { return at.substr(at.rfind('/') + 1); }

void remove(Json& json, const std::string& at) {
  Json& parent = value_at(json, at.substr(0, at.rfind('/')));
  if (parent.is_array())
    parent.list().erase(parent.begin() + std::stol(last_key(at)));
  else
    parent.erase(last_key(at));
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

TEST_CASE_FIXTURE(Fixture,
                  "any number of a checkpoint's state replaced: the same bits, or a line") {
  CHECK_FALSE(with(saved));
  std::vector<std::string> numbers;
  find_numbers(saved, "", numbers);
  REQUIRE(numbers.size() == 27);
  for (const std::string& at : numbers) {
    CAPTURE(at);
    for (const Json& value : {Json(-1), Json(0), Json(9999), Json(1e15), Json(1000000000000000),
                              Json(1e30), Json(0.5), Json("5"), Json()}) {
      CAPTURE(value.dump());
      Json changed = saved;
      if (value_at(changed, at) == value) continue;
      value_at(changed, at) = value;
      const auto line = with(changed);
      // Any loss, number of lone rows and number of draws is valid.
      const bool any_sum = last_key(at) == "sum" && value.is_number();
      const bool any_count = (last_key(at) == "lone_rows" || last_key(at) == "draws") &&
                             value.is_number_integer() && value >= 0;
      if (!any_sum && !any_count) CHECK(line.has_value());
    }
    Json changed = saved;
    remove(changed, at);
    CHECK(with(changed).has_value());
  }
}

TEST_CASE_FIXTURE(Fixture, "a refusal says which number it is, what was expected and what found") {
  const std::string file = state.string();
  CHECK(*with("/step", 9999) == file + ": step: expected at most 12, found 9999");
  CHECK(*with("/step", -1) == file +
                                  ": step: expected a whole number from 0 to 9223372036854775807, "
                                  "got -1");
  CHECK(*with("/step", 6) == file +
                                 ": step 6 is not step 1 of epoch 1 (step_in_epoch, epoch), each "
                                 "counted from 0");
  CHECK(*with("/epoch", 1000000000000000) ==
        file +
            ": step 5 is not step 1 of epoch 1000000000000000 (step_in_epoch, epoch), each counted "
            "from 0");
  CHECK(*with("/generator/step", 0) == file + ": generator's step: expected 5, found 0");
  Json best = saved;
  best["best_metric"] = 0.5;
  CHECK(*with(best) == file +
                           ": best_global_step: expected a whole number from 0 to "
                           "9223372036854775807, got null");
  best["best_global_step"] = 6;
  CHECK(*with(best) == file + ": best_global_step: expected at most 5, found 6");
  best["best_global_step"] = 5;
  CHECK_FALSE(with(best));
  CHECK(*with("/callbacks", Json{{"patience", -1}}) ==
        file +
            ": callbacks.patience: expected a whole number from 0 to 9223372036854775807, got -1");
  CHECK(*with("/updates/embeddings.weight", 6) ==
        file + ": updates of 'embeddings.weight': expected at most its 5 steps, found 6");
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
