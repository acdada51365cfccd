// The options of `ringlet train` about evaluations, checkpoints and the best model.
#pragma once

#include "ringlet/train/cli/train_options.h"

namespace ringlet::cli {

void add_evaluation_options(CLI::App& command, TrainOptions& options);

/// InputError for options that would have no effect with the others.
void check_evaluation(const TrainOptions& options);

/// When to evaluate and to save: as given, or by the steps given.
void set_strategies(const TrainOptions& options, train::TrainingArguments& arguments);

}  // namespace ringlet::cli
