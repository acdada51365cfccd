#include "ringlet/models/embeddings.h"

#include "ringlet/autograd/functions/embedding.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/models/encoder_layer.h"

namespace ringlet::models {

Embeddings::Embeddings(const EncoderConfig& config) : config_(config) {
  const std::int64_t hidden = config.hidden_size;
  word_ = register_parameter("word_embeddings.weight",
                             initial_weight(config, {config.vocab_size, hidden}));
  position_ = register_parameter("position_embeddings.weight",
                                 initial_weight(config, {config.max_position_embeddings, hidden}));
  if (!BlankWeights::active()) {
    if (config.padding_id() >= 0 && config.padding_id() < config.vocab_size)
      word_.mutable_tensor()[config.padding_id()].zero_();
    if (config.counts_positions()) position_.mutable_tensor()[kCountedPadding].zero_();
  }
  if (config.type_vocab_size > 0)
    token_type_ = register_parameter("token_type_embeddings.weight",
                                     initial_weight(config, {config.type_vocab_size, hidden}));
  norm_weight_ = register_parameter("LayerNorm.weight", ones({hidden}));
  norm_bias_ = register_parameter("LayerNorm.bias", zeros({hidden}));
}

Variable Embeddings::forward(const PackedBatch& batch, DType dtype) {
  const bool counted = config_.counts_positions();
  const Tensor& index = counted ? batch.counted_index : batch.token_index;
  const double first = static_cast<double>(config_.first_position());
  EmbeddingIds ids{batch.token_ids, add(index, scalar_like(first, index)), {}};  // (T) each
  ids.word_padding = static_cast<std::int32_t>(config_.padding_id());
  if (counted) ids.position_padding = kCountedPadding;
  if (token_type_) ids.type = zeros_like(index);
  const double p = training() ? config_.hidden_dropout_prob : 0;
  return autograd::embedding_sum_layer_norm(
      word_, position_, token_type_, ids, norm_weight_, norm_bias_, config_.layer_norm_eps,
      default_generator().dropout_key(static_cast<float>(p), site()), batch.positions, dtype);
}

}  // namespace ringlet::models
