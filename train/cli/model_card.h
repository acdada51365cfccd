// The model card of `ringlet train`.
#pragma once

#include <string>

#include "ringlet/train/cli/train_plan.h"

namespace ringlet::cli {

/// README.md of the saved model. Only rank 0 calls it, which has metrics.jsonl.
std::string card_text(const TrainPlan& plan, const models::SentenceEncoder& encoder,
                      const Losses& losses, const train::TrainingArguments& arguments,
                      const train::TrainingResult& result);

}  // namespace ringlet::cli
