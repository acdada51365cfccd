#include "ringlet/train/early_stopping.h"

#include "ringlet/train/best_metric.h"

namespace ringlet::train {
namespace {

constexpr const char* kCounter = "early_stopping_patience_counter";

void check_evaluations(const TrainingArguments& arguments) {
  if (!BestMetric::is_wanted(arguments))
    fail_input("early stopping: expected metric_for_best_model or load_best_model_at_end");
  if (arguments.eval_strategy == EvalStrategy::no)
    fail_input("early stopping: expected eval strategy steps or epoch, found no");
}

}  // namespace

TrainerCallback early_stopping(Trainer& trainer, EarlyStoppingOptions options) {
  if (options.patience < 1)
    fail_input("early stopping patience: expected at least 1, found ", options.patience);
  if (!(options.threshold >= 0))
    fail_input("early stopping threshold: expected 0 or more, found ", options.threshold);
  const auto failed = std::make_shared<std::int64_t>(0);
  TrainerCallback callback;
  callback.on_train_begin = check_evaluations;
  callback.on_evaluate = [=, &trainer](const EvaluationReport& report) {
    *failed = report.improvement > options.threshold ? 0 : *failed + 1;
    if (*failed >= options.patience) trainer.stop();
  };
  callback.state = [=] { return CallbackState{{kCounter, *failed}}; };
  callback.load_state = [=, &trainer](const CallbackState& state) {
    const auto found = state.find(kCounter);
    *failed = found == state.end() ? 0 : found->second;
    if (*failed >= options.patience) trainer.stop();
  };
  return callback;
}

}  // namespace ringlet::train
