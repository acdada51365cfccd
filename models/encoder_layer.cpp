#include "ringlet/models/encoder_layer.h"

#include <utility>

#include "ringlet/autograd/functions.h"
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
    : attention_dropout_(names.attention_dropout ? config.hidden_dropout_prob : 0),
      dropout_(config.hidden_dropout_prob),
      kind_(names.kind) {
  const std::int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  const auto weight = [config](const Shape& shape) { return initial_weight(config, shape); };
  // Registered without a name: the architecture's names of the projections start here.
  attention_ = register_module(
      "", std::make_shared<nn::SelfAttention>(
              hidden, nn::SelfAttentionOptions{.heads = config.num_attention_heads,
                                               .dropout = config.attention_probs_dropout_prob,
                                               .query = names.query,
                                               .key = names.key,
                                               .value = names.value,
                                               .output = names.attention_dense,
                                               .init = weight}));
  const auto norm = [&] { return std::make_shared<nn::LayerNorm>(hidden, config.layer_norm_eps); };
  const auto dense = [&](std::int64_t in, std::int64_t out) {
    return std::make_shared<nn::Linear>(weight({out, in}), zeros({out}));
  };
  register_replaceable<nn::UnaryModule>(names.attention_norm, attention_norm_, norm());
  register_replaceable<nn::UnaryModule>(names.intermediate, intermediate_, dense(hidden, wide));
  register_replaceable<nn::UnaryModule>(names.output, output_, dense(wide, hidden));
  register_replaceable<nn::UnaryModule>(names.output_norm, output_norm_, norm());
}

bool EncoderLayer::takes_bias(const nn::UnaryModule& norm) const {
  return tokens_.count() == 1 && dynamic_cast<const nn::LayerNorm*>(&norm);
}

Variable EncoderLayer::add_and_norm(const Variable& x, const Variable& x_bias,
                                    const Variable& residual, const PackedBatch& batch,
                                    nn::UnaryModule& norm, double dropout,
                                    std::uint32_t place) const {
  const float p = training() ? static_cast<float>(dropout) : 0;
  const DropoutKey key = default_generator().dropout_key(p, site() + place);
  const auto* fused = dynamic_cast<const nn::LayerNorm*>(&norm);
  if (!fused) return norm(residual + (p > 0 ? autograd::dropout(x, key, batch.positions) : x));
  const std::vector<Variable> weights = tokens_.copies(fused->weight);
  const std::vector<Variable> biases = tokens_.copies(fused->bias);
  return tokens_.join(0, [&](int i) {
    const auto slice = static_cast<std::size_t>(i);
    return autograd::residual_dropout_layer_norm(
        tokens_.part(x, 0, i), tokens_.part(residual, 0, i), key,
        tokens_.rows_of(batch.positions, i), weights[slice], biases[slice], fused->eps, x_bias);
  });
}

bool EncoderLayer::has_token_slices() const {
  const auto is_linear = [](const auto& part) { return dynamic_cast<nn::Linear*>(part.get()); };
  const auto is_norm = [](const auto& part) { return dynamic_cast<nn::LayerNorm*>(part.get()); };
  return attention_->pieces(nn::SliceKind::heads) > 0 && is_linear(intermediate_) &&
         is_linear(output_) && is_norm(attention_norm_) && is_norm(output_norm_);
}

void EncoderLayer::slice_tokens(const nn::SlicesPtr& slices, const nn::Sliceable::Cut& cut) {
  attention_->slice(nn::SliceKind::heads, slices, cut);
  dynamic_cast<nn::Linear&>(*intermediate_).slice(nn::SliceKind::columns, slices, cut);
  dynamic_cast<nn::Linear&>(*output_).slice(nn::SliceKind::rows, slices, cut);
  tokens_ = *slices;
}

Variable EncoderLayer::forward(const Variable& hidden, const PackedBatch& batch,
                               const Variable& relative_bias) {
  RINGLET_CHECK(tokens_.count() == 1 || has_token_slices(),
                "[tensor] sequence: a part of a layer was replaced after the layer was cut");
  const nn::SelfAttention::Sentences sentences{batch.cu_seqlens, batch.sentence_ids, batch.lengths,
                                               batch.tokens()};
  Variable attended_bias, contracted_bias;
  const Variable attended =
      (*attention_)(hidden, sentences, relative_bias,
                    takes_bias(*attention_norm_) ? &attended_bias : nullptr);  // (T, H)
  const Variable middle =
      add_and_norm(attended, attended_bias, hidden, batch, *attention_norm_, attention_dropout_, 1);
  auto* const fused = dynamic_cast<nn::Linear*>(intermediate_.get());
  const Variable expanded = fused ? fused->forward_gelu(middle, batch.tokens())
                                  : autograd::gelu((*intermediate_)(middle));  // (T, 4H)
  auto* const dense =
      takes_bias(*output_norm_) ? dynamic_cast<nn::Linear*>(output_.get()) : nullptr;
  const Variable contracted =
      dense ? (*dense)(expanded, &contracted_bias) : (*output_)(expanded);  // (T, H)
  return add_and_norm(contracted, contracted_bias, middle, batch, *output_norm_, dropout_, 2);
}

}  // namespace ringlet::models
