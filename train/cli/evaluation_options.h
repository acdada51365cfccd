// The options of `ringlet train` about evaluations, checkpoints and the best model.
#pragma once

#include <optional>

#include "ringlet/train/early_stopping.h"
#include "ringlet/train/trainer_arguments.h"

namespace CLI {
class App;
}

namespace ringlet::cli {

/// Next to the trainer's arguments.
struct EvaluationOptions {
  std::optional<train::EvalStrategy> eval_strategy;  // none: epoch, or steps with --eval-steps
  std::optional<train::SaveStrategy> save_strategy;  // none: no, or steps with --save-steps
  train::EarlyStoppingOptions early_stopping{.patience = 0};  // 0: none
};

void add_evaluation_options(CLI::App& command, EvaluationOptions& options,
                            train::TrainingArguments& arguments);

/// InputError for options that would have no effect with the others.
void check(const EvaluationOptions& options, const train::TrainingArguments& arguments);

/// When to evaluate and to save: as given, or by the steps given.
void set_strategies(const EvaluationOptions& options, train::TrainingArguments& arguments);

}  // namespace ringlet::cli
