// All that `ringlet train` knows before its ranks start.
#pragma once

#include <optional>

#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/train/cli/train_options.h"

namespace ringlet::cli {

struct TrainPlan {
  TrainOptions options;
  TrainingData data;
  std::optional<models::Tokenizer> tokenizer;  // of a new model
};

}  // namespace ringlet::cli
