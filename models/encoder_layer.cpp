#include "ringlet/models/encoder_layer.h"

#include <utility>

#include "ringlet/autograd/functions/layer_norm.h"
#include "ringlet/autograd/functions/matmul.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::models {

namespace {

thread_local bool blank_weights = false;

}  // namespace

BlankWeights::BlankWeights() : previous_(std::exchange(blank_weights, true)) {}
BlankWeights::~BlankWeights() { blank_weights = previous_; }
bool BlankWeights::active() { return blank_weights; }

Tensor initial_weight(const EncoderConfig& config, const Shape& shape) {
  if (blank_weights) {
    const std::size_t nbytes = static_cast<std::size_t>(shape.numel()) * itemsize(DType::f32);
    return Tensor(std::make_shared<Storage>(nullptr, nbytes, Device(), [] {}), 0, shape,
                  DType::f32);
  }
  return normal(shape, 0, config.initializer_range);
}

EncoderLayer::EncoderLayer(const EncoderConfig& config, const LayerNames& names)
    : dropout_(config.hidden_dropout_prob), kind_(names.kind) {
  const std::int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  const auto weight = [config](const Shape& shape) { return initial_weight(config, shape); };
  const auto norm = [&] { return std::make_shared<nn::LayerNorm>(hidden, config.layer_norm_eps); };
  // Under no name of its own: the architecture names the projections from here.
  attention_ = register_module(
      "", std::make_shared<nn::SelfAttention>(
              hidden, nn::SelfAttentionOptions{.heads = config.num_attention_heads,
                                               .dropout = config.attention_probs_dropout_prob,
                                               .query = names.query,
                                               .key = names.key,
                                               .value = names.value,
                                               .output = names.attention_dense,
                                               .init = weight}));
  attention_norm_ = register_module(names.attention_norm, norm());
  intermediate_ = register_module(
      "intermediate.dense", std::make_shared<nn::Linear>(weight({wide, hidden}), zeros({wide})));
  output_ = register_module("output.dense",
                            std::make_shared<nn::Linear>(weight({hidden, wide}), zeros({hidden})));
  output_norm_ = register_module("output.LayerNorm", norm());
}

Variable EncoderLayer::add_and_norm(const Variable& x, const Variable& residual,
                                    const PackedBatch& batch, const nn::LayerNorm& norm,
                                    std::uint32_t place) const {
  const float p = training() ? static_cast<float>(dropout_) : 0;
  return autograd::residual_dropout_layer_norm(x, residual,
                                               default_generator().dropout_key(p, site() + place),
                                               batch.positions, norm.weight, norm.bias, norm.eps);
}

Variable EncoderLayer::forward(const Variable& hidden, const PackedBatch& batch,
                               const Variable& relative_bias) {
  const nn::SelfAttention::Sentences sentences{batch.cu_seqlens, batch.sentence_ids, batch.lengths};
  const Variable attended = (*attention_)(hidden, sentences, relative_bias);  // (T, H)
  const Variable middle = add_and_norm(attended, hidden, batch, *attention_norm_, 1);
  const Variable expanded =
      autograd::linear_gelu(middle, intermediate_->weight, intermediate_->bias);  // (T, 4H)
  return add_and_norm((*output_)(expanded), middle, batch, *output_norm_, 2);
}

}  // namespace ringlet::models
