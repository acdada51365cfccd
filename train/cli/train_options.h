// The options of `ringlet train` and their checks.
#pragma once

#include <map>
#include <string>

#include <optional>
#include "ringlet/comm/environment.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/training_data.h"
#include "ringlet/train/trainer.h"

namespace ringlet::cli {

struct TrainOptions {
  ModelOptions model;
  DataOptions data;
  PromptOptions prompts;
  std::string vocab;
  /// 0: chosen by the model and the data, or for save_steps none.
  train::TrainingArguments arguments{.output_dir = "output",
                                     .num_train_epochs = 0,
                                     .per_device_train_batch_size = 32,
                                     .per_device_eval_batch_size = 32,
                                     .learning_rate = 0,
                                     .logging_steps = 10,
                                     .eval_strategy = train::EvalStrategy::epoch,
                                     .save_strategy = train::SaveStrategy::no,
                                     .save_steps = 0};
  train::EarlyStoppingOptions early_stopping{.patience = 0};  // 0: none
  double warmup = 0.1;
  bool resume = false;
  bool no_progress = false;
  std::string timeline;          // see train::TimelineFiles; empty: none
  int devices = 0;               // on entry 0: one, or those of the mesh
  std::size_t memory_limit = 0;  // bytes of each device; 0: none
  std::string transport = "auto";
  std::string algorithm = "auto";
  double timeout = 0;                        // seconds; 0: GroupOptions' own
  std::map<std::string, std::string> given;  // the text of each option that was given
  std::vector<std::string> words;            // the same, "--lr=0.001" each
  std::int64_t replay_to = 0;  // of ringlet audit: ends after this step; the model is not saved

  bool is_given(const std::string& option) const { return given.contains(option); }
};

/// --model names an architecture, not a folder: the weights are random.
bool from_scratch(const TrainOptions& options);

void add_train_options(Command& command, TrainOptions& options);

/// InputError for everything that can be known to be wrong before a file is read.
void check(const TrainOptions& options);
/// InputError where --output is not new, or has no checkpoint for --resume. After a launcher's
/// restart it holds what the attempt before has left, and --resume is set by that. Rank 0 has the
/// folder's lock.
void check_output(TrainOptions& options, const comm::Environment& environment);
/// The same for what several devices cannot do; `launched`: this is one of several ranks.
void check_devices(const TrainOptions& options, bool launched);

/// Completes the options with what --mesh says of strategy and devices; the number of ranks with
/// different rows. InputError unless there are `launched` ranks, if a launcher started them.
int apply_mesh(TrainOptions& options, int launched);

/// How the ranks talk to each other.
comm::GroupOptions group_options(const TrainOptions& options);

/// InputError when a data set has fewer rows than a step takes, `devices` times --batch,
/// times --gradient-accumulation-steps.
void check_batch(const TrainOptions& options, const TrainingData& data, int devices);

/// With what depends on the model and the data filled in.
train::TrainingArguments training_arguments(const TrainOptions& options, const TrainingData& data);

struct TrainPlan {
  TrainOptions options;
  TrainingData data;
  std::optional<models::Tokenizer> tokenizer;  // of a new model
};

}  // namespace ringlet::cli
