// `ringlet train`: its options and their checks, the training on a rank, and its reports.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/group.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/training_data.h"
#include "ringlet/train/trainer.h"

namespace ringlet::cli {

// ---- options: train_options.cpp ----

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
  double timeout = 0;                             // seconds; 0: GroupOptions' own
  std::multimap<std::string, std::string> given;  // the texts of each option that was given
  std::int64_t replay_to = 0;  // of ringlet audit: ends after this step; the model is not saved

  bool is_given(const std::string& option) const { return given.contains(option); }
  const std::string& text_of(const std::string& option) const { return given.find(option)->second; }
};

/// --model names an architecture, not a folder: the weights are random.
bool from_scratch(const TrainOptions& options);

void add_train_options(Command& command, TrainOptions& options);

/// InputError for everything that can be known to be wrong before a file is read.
void check(const TrainOptions& options, const comm::Environment& environment);
/// InputError where --output is not new, or has no checkpoint for --resume. After a launcher's
/// restart it holds what the attempt before has left, and --resume is set by that. Rank 0 has the
/// folder's lock.
void check_output(TrainOptions& options, const comm::Environment& environment);

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

// ---- the training: train.cpp, train_rank.cpp ----

/// The weights below --output, of a model that is one transformer.
inline constexpr const char* kWeights = "model/model.safetensors";

/// Options that `ringlet audit` neither records nor obeys.
inline constexpr std::array<std::string_view, 8> kNotReplayed{
    "--config",      "--output",      "--resume",       "--timeline",
    "--no-progress", "--tensorboard", "--memory-limit", "--redundancy"};

/// Trains on all ranks as the options of `command` say.
void train_model(TrainOptions options, const Command& command);

/// InputError where --memory-limit is less than a new model's weights: they are random, and so
/// whole on each rank before a strategy shards them.
void check_random_weights(const TrainPlan& plan);

/// A training in memory: of a world that has ended, or of a rank that joins one.
struct KeptTraining {
  TrainPlan plan;
  models::SentenceEncoder encoder;
  Losses losses;
  std::optional<train::Snapshot> snapshot;
};

/// The training before its first step. All ranks of `group` call it.
KeptTraining new_training(TrainPlan plan, const comm::Group& group);

/// Trains on this rank; rank 0 shows and writes. After SIGINT or SIGTERM on any rank all save at
/// the end of the step and throw Interrupted. After an error `kept` has what the next call needs to
/// go on with other ranks.
void train_rank(TrainPlan plan, const comm::Group& group, std::optional<KeptTraining>& kept);

// ---- reports: train_report.cpp ----

/// README.md of the saved model. Only rank 0 calls it, which has metrics.jsonl.
std::string card_text(const TrainPlan& plan, const models::SentenceEncoder& encoder,
                      const Losses& losses, const train::TrainingArguments& arguments,
                      const train::TrainingResult& result);

/// Writes curves.svg: the losses and, where there are any, the scores of evaluations over steps.
void draw_curves(const std::filesystem::path& output, const TrainingData& data);

/// "an epoch takes 376 steps: 9000 of 9000 rows of nli, 3000 of 3000 of sts"
std::string epoch_plan(const train::TrainingTask& task);

/// "epoch 2 ended with sts: 33.3 % of nli's 9000 rows were used", counted from 1. Empty if the
/// epoch used every row.
std::string epoch_end(const train::TrainingTask& task, std::size_t epoch);

}  // namespace ringlet::cli
