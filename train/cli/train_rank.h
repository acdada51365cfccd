// The training of `ringlet train` on one rank.
#pragma once

#include <string>
#include "ringlet/comm/group.h"
#include "ringlet/train/cli/train_options.h"

namespace ringlet::cli {

/// InputError where --memory-limit is less than a new model's weights: they are random, and so
/// whole on each rank before a strategy shards them.
void check_random_weights(const TrainPlan& plan);

/// Trains on this rank; rank 0 shows and writes. After SIGINT or SIGTERM on any rank all save at
/// the end of the step and throw Interrupted.
void train_rank(TrainPlan plan, const comm::Group& group);

/// README.md of the saved model. Only rank 0 calls it, which has metrics.jsonl.
std::string card_text(const TrainPlan& plan, const models::SentenceEncoder& encoder,
                      const Losses& losses, const train::TrainingArguments& arguments,
                      const train::TrainingResult& result);

}  // namespace ringlet::cli
