// The digests of audit.jsonl: equal under every strategy, continued by a resumed run, and different
// after a flip of any bit.
#include "ringlet/train/checkpoint/audit.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "../../files.h"
#include "../words_loss.h"
#include "ringlet/core/io/file.h"
#include "ringlet/tests/extended.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/data/draws.h"
#include "ringlet/train/optimizer/update_rules.h"
#include "ringlet/train/trainer.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

namespace fs = std::filesystem;

/// 12 rows a step, for any number of devices.
TrainingArguments arguments(const fs::path& output, Strategy strategy, int devices) {
  TrainingArguments arguments{.output_dir = output,
                              .max_steps = 6,
                              .per_device_train_batch_size = 12 / static_cast<std::size_t>(devices),
                              .learning_rate = 1e-3,
                              .strategy = strategy,
                              .save_strategy = SaveStrategy::no,
                              .audit_steps = 2};
  if (strategy == Strategy::dp) arguments.devices = tiny::devices(devices);
  return arguments;
}

void run(const TrainingArguments& arguments, int devices,
         const std::function<void(const StepReport&, tiny::Model&, int rank)>& on_step_end = {}) {
  const auto on_rank = [&](const comm::Group& group) {
    tiny::Model model;
    Trainer trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), arguments, group);
    if (on_step_end)
      trainer.add_callback(
          {.on_step_end = [&](const auto& at) { on_step_end(at, model, group.rank()); }});
    trainer.train();
  };
  if (arguments.strategy == Strategy::none || arguments.strategy == Strategy::dp)
    return on_rank({});
  comm::launch(on_rank, devices, {.ranks = comm::Ranks::threads});
}

/// The digests of the links.
std::vector<std::string> links(const fs::path& output) {
  std::vector<std::string> digests;
  for (const AuditLine& line : read_audit(output / kAudit))
    if (line.has("state") && line.step % 2 == 0) digests.push_back(line.digest);
  return digests;
}

void flip(fs::path file, Draws& draws) {
  std::string bytes = read_file(file);
  char& byte = bytes[draws.index(bytes.size())];
  byte = static_cast<char>(byte ^ (1 << draws.index(8)));
  write_file(file, bytes);
}

void flip(Tensor values, Draws& draws) {
  std::byte& byte = values.mutable_bytes()[draws.index(values.nbytes())];
  byte ^= std::byte{1} << draws.index(8);
}

}  // namespace

TEST_CASE("every strategy has the same links at the same number of devices") {
  for (const int n : {2, 3}) {
    std::vector<std::string> expected;
    for (const Strategy strategy : tiny::strategies()) {
      CAPTURE(n);
      CAPTURE(kStrategies(strategy));
      const TemporaryFolder folder;
      run(arguments(folder / "run", strategy, n), n);
      if (expected.empty()) expected = links(folder / "run");
      CHECK_EQ(expected.size(), 4);
      CHECK(links(folder / "run") == expected);
    }
    // One device that runs the batches of n sequentially.
    const TemporaryFolder folder;
    TrainingArguments sequential = arguments(folder / "run", Strategy::none, n);
    sequential.gradient_accumulation_steps = static_cast<std::size_t>(n);
    run(sequential, 1);
    CHECK(links(folder / "run") == expected);
  }
}

TEST_CASE("a run that is stopped and resumed under another strategy has the undisturbed links") {
  const TemporaryFolder folder;
  run(arguments(folder / "whole", Strategy::ddp, 2), 2);
  TrainingArguments part = arguments(folder / "parts", Strategy::zero1, 2);
  part.save_strategy = SaveStrategy::steps;
  part.save_steps = 3;
  run(part, 2);
  fs::remove_all(checkpoint_path(folder / "parts", 6));
  part.strategy = Strategy::fsdp;
  part.resume_from_checkpoint = part.output_dir;
  run(part, 2);
  CHECK(links(folder / "parts") == links(folder / "whole"));
  const auto checkpoints =
      check_checkpoints(folder / "parts", read_audit(folder / "parts/audit.jsonl"));
  CHECK(checkpoints == std::vector<std::int64_t>{3, 6});

  part.audit_steps = 3;
  CHECK(doctest::String(message_of<InputError>([&] { run(part, 2); }).c_str()) ==
        doctest::Contains("began with interval 2, or with other arguments"));
}

TEST_CASE("a rank with another replica is named at the next digest") {
  const TemporaryFolder folder;
  const std::string error = message_of([&] {
    run(arguments(folder / "run", Strategy::ddp, 2), 2,
        [](const StepReport& at, tiny::Model& model, int rank) {
          Draws draws(1);
          if (at.step == 4 && rank == 1) flip(model.loss->parameters()[0].mutable_tensor(), draws);
        });
  });
  CHECK_MESSAGE(error.find("[audit] rank 1: weights of '") != error.npos, error);
  CHECK_MESSAGE(error.find("differ from an earlier rank's") != error.npos, error);
}

namespace {

/// A run of 8 steps with a link at every second one and checkpoints at 3, 6 and 8.
struct PairTraining {
  std::shared_ptr<words::Loss> loss = words::loss(2);

  void train(const fs::path& output, const std::function<void(std::int64_t step)>& at_end = {},
             std::shared_ptr<const TextDataset> data = words::dataset(24, 2),
             const fs::path& from = {}) {
    Trainer trainer(*loss, {data}, words::tokenizer(),
                    {.output_dir = output,
                     .max_steps = 8,
                     .save_steps = 3,
                     .audit_steps = 2,
                     .resume_from_checkpoint = from});
    if (at_end)
      trainer.add_callback({.on_step_end = [&](const StepReport& at) { at_end(at.step); }});
    trainer.train();
  }
};

/// The same rows, but for a bit of a text.
std::shared_ptr<TextDataset> flipped_rows(Draws& draws) {
  const auto data = words::dataset(24, 2);
  auto copy = std::make_shared<TextDataset>(data->name(), data->columns(), data->target());
  const std::size_t flipped = draws.index(data->size());
  for (std::size_t row = 0; row < data->size(); ++row) {
    const RowTexts views = data->texts(row);
    std::vector<std::string> texts(views.begin(), views.end());
    char& byte = texts[draws.index(2)][0];
    if (row == flipped) byte = static_cast<char>(byte ^ (1 << draws.index(7)));
    copy->add_row(std::vector<std::string_view>(texts.begin(), texts.end()), data->label(row));
  }
  return copy;
}

}  // namespace

TEST_CASE("every flipped bit is found: in weights, moments, rows, audit.jsonl, checkpoints") {
  const TemporaryFolder folder;
  const fs::path run = folder / "run", log = run / kAudit, other = folder / "other";
  PairTraining().train(run);
  const std::vector<AuditLine> clean = read_audit(log);
  CHECK(check_checkpoints(run, clean) == std::vector<std::int64_t>{3, 6, 8});
  PairTraining().train(other);
  check_replay(clean, read_audit(other / kAudit));  // throws nothing
  PairTraining().train(other, {}, words::dataset(24, 2), run);

  const std::shared_ptr<words::Loss> kept = PairTraining().loss;
  words::Loss& model = *kept;
  AdamW optimizer(model, {});
  const auto digest = [&] { return state_digest(model, optimizer, {}); };
  Draws draws(39);
  std::string kind, missed;  // kinds are the cases below
  const auto check = [&](const std::function<void()>& audit) {
    if (message_of(audit).empty()) missed += kind;
  };
  const int flips = is_extended() ? 1000 : 100;
  for (int i = 0; i < flips; ++i) {
    fs::remove_all(other);
    kind = str(i % 5);
    switch (i % 5) {
      case 0: {  // weights, before a digest: a later update could round the bit away
        PairTraining training;
        const std::int64_t step = draws.pick<std::int64_t>({2, 3, 4, 6, 8});
        const auto parameters = training.loss->parameters();
        check([&] {
          training.train(other, [&](std::int64_t at) {
            if (at == step)
              flip(parameters[draws.index(parameters.size())].mutable_tensor(), draws);
          });
          check_replay(read_audit(other / kAudit), clean);
        });
        break;
      }
      case 1: {  // moments
        const Tensor& moment = optimizer.local_moments()[0][draws.index(2)];
        const auto& unit = model.arena()->units()[0];
        const std::string before = digest();
        flip(moment.slice(unit.begin, unit.end), draws);
        if (digest() == before) missed += kind;
        break;
      }
      case 2:  // the rows
        check([&] { PairTraining().train(other, {}, flipped_rows(draws), run); });
        break;
      case 3: {
        fs::create_directory(other);
        fs::copy_file(log, other / kAudit);
        flip(other / kAudit, draws);
        check([&] { read_audit(other / kAudit); });
        break;
      }
      case 4: {
        fs::copy(run, other, fs::copy_options::recursive);
        const auto files = list_folder(checkpoint_path(other, 3));
        flip(files[draws.index(files.size())], draws);
        check([&] { check_checkpoints(other, clean); });
        break;
      }
    }
  }
  CHECK_EQ(missed, "");
}
