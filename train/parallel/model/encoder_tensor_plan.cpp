#include "ringlet/train/parallel/model/encoder_tensor_plan.h"

namespace ringlet::train {

TensorPlan encoder_tensor_plan(const models::EncoderConfig& config, bool vocabulary) {
  const bool distilbert = config.architecture == models::Architecture::distilbert;
  TensorPlan plan{.columns = {distilbert ? "layer.*.ffn.lin1" : "layer.*.intermediate.dense"},
                  .rows = {distilbert ? "layer.*.ffn.lin2" : "layer.*.output.dense"},
                  .heads = {"layer.*"}};
  if (vocabulary) plan.vocabulary = {"embeddings"};
  if (config.architecture == models::Architecture::mpnet)
    plan.by_head = {"relative_attention_bias.weight"};
  return plan;
}

}  // namespace ringlet::train
