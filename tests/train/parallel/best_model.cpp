// Ranks end together with the model of the best evaluation, under every strategy.
#include <doctest/doctest.h>

#include "../../files.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/trainer.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// 12 rows per global batch on two devices, an evaluation every two steps.
TrainingArguments arguments(Strategy strategy, std::int64_t steps) {
  TrainingArguments arguments{.max_steps = steps,
                              .per_device_train_batch_size = 6,
                              .learning_rate = 1e-3,
                              .lr_scheduler_type = Decay::constant,
                              .strategy = strategy};
  if (strategy == Strategy::dp) arguments.devices = tiny::devices(2);
  return arguments;
}

/// Trains on two devices and saves the encoder.
void train_two(const TrainingArguments& arguments, const std::filesystem::path& folder,
               const std::function<void(Trainer&, const comm::Group&)>& prepare,
               std::int64_t steps) {
  const auto on_rank = [&](const comm::Group& group) {
    tiny::Model model;
    Trainer trainer(*model.loss, tiny::datasets(), model.encoder.tokenizer(), arguments, group);
    prepare(trainer, group);
    const TrainingResult result = trainer.train();
    RINGLET_CHECK(result.steps == steps, result.steps, " steps");
    model.encoder.save(folder);
  };
  if (arguments.strategy == Strategy::dp) return on_rank({});
  comm::launch(on_rank, 2, {.ranks = comm::Ranks::threads});
}

}  // namespace

TEST_CASE("two devices stop early and load the best model together; rank 0's figures decide") {
  const TemporaryFolder folder;
  train_two(
      arguments(Strategy::ddp, 4), folder / "four", [](Trainer&, const comm::Group&) {}, 4);
  const std::string expected = read_file(folder / "four/model.safetensors");
  for (const Strategy strategy : tiny::strategies()) {
    const std::string name(kStrategies(strategy));
    CAPTURE(name);
    TrainingArguments best = arguments(strategy, 20);
    best.output_dir = folder / (name + "-run");
    best.eval_strategy = EvalStrategy::steps;
    best.eval_steps = 2;
    best.save_steps = 2;
    best.save_total_limit = 1;
    best.load_best_model_at_end = true;
    best.metric_for_best_model = "score";
    const auto prepare = [](Trainer& trainer, const comm::Group& group) {
      trainer.add_evaluator([rank = group.rank()](const EvaluationPoint& at) {
        if (rank == 1 && at.step == 6) return Metrics();  // a figure of rank 0 alone
        const bool is_best = at.step == (rank == 0 ? 4 : 2);
        return Metrics{{"score", is_best ? 0.9 : 0.1}};
      });
      trainer.add_callback(early_stopping(trainer, {.patience = 2}));
    };
    train_two(best, folder / name, prepare, 8);
    CHECK((read_file(folder / name / "model.safetensors") == expected));
    CHECK(path_exists(best.output_dir / "checkpoint-4"));
    CHECK(path_exists(best.output_dir / "checkpoint-8"));
    CHECK(list_folder(best.output_dir).size() == 3);  // and the metrics
  }
}
