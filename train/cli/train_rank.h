// The training of `ringlet train` on one rank.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ringlet/comm/group.h"
#include "ringlet/train/cli/train_options.h"

namespace ringlet::cli {

/// The weights below --output, of a model that is one transformer.
inline constexpr const char* kWeights = "model/model.safetensors";

/// Options that `ringlet audit` neither records nor obeys.
inline constexpr std::array<std::string_view, 7> kNotReplayed{
    "--output",      "--resume",       "--timeline",  "--no-progress",
    "--tensorboard", "--memory-limit", "--redundancy"};

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

/// README.md of the saved model. Only rank 0 calls it, which has metrics.jsonl.
std::string card_text(const TrainPlan& plan, const models::SentenceEncoder& encoder,
                      const Losses& losses, const train::TrainingArguments& arguments,
                      const train::TrainingResult& result);

}  // namespace ringlet::cli
