#include "ringlet/models/encoder_layer.h"

#include "ringlet/autograd/functions/attention.h"
#include "ringlet/autograd/functions/layer_norm.h"
#include "ringlet/autograd/functions/matmul.h"
#include "ringlet/autograd/functions/packed_linear.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::models {

Tensor initial_weight(const EncoderConfig& config, const Shape& shape) {
  return normal(shape, 0, config.initializer_range);
}

EncoderLayer::EncoderLayer(const EncoderConfig& config, const LayerNames& names)
    : config_(config), kind_(names.kind) {
  const std::int64_t hidden = config.hidden_size;
  // The three weights first, then the three biases, so that in an arena they are one (3H, H)
  // matrix and one (3H) vector.
  query_.weight =
      register_parameter(concat(names.query, ".weight"), initial_weight(config, {hidden, hidden}));
  key_.weight =
      register_parameter(concat(names.key, ".weight"), initial_weight(config, {hidden, hidden}));
  value_.weight =
      register_parameter(concat(names.value, ".weight"), initial_weight(config, {hidden, hidden}));
  query_.bias = register_parameter(concat(names.query, ".bias"), zeros({hidden}));
  key_.bias = register_parameter(concat(names.key, ".bias"), zeros({hidden}));
  value_.bias = register_parameter(concat(names.value, ".bias"), zeros({hidden}));
  attention_dense_ = register_dense(names.attention_dense, hidden, hidden);
  attention_norm_ = register_norm(names.attention_norm);
  intermediate_ = register_dense("intermediate.dense", config.intermediate_size, hidden);
  output_ = register_dense("output.dense", hidden, config.intermediate_size);
  output_norm_ = register_norm("output.LayerNorm");
}

EncoderLayer::Dense EncoderLayer::register_dense(const std::string& name, std::int64_t out,
                                                 std::int64_t in) {
  Dense dense;
  dense.weight = register_parameter(name + ".weight", initial_weight(config_, {out, in}));
  dense.bias = register_parameter(name + ".bias", zeros({out}));
  return dense;
}

EncoderLayer::Dense EncoderLayer::register_norm(const std::string& name) {
  Dense norm;
  norm.weight = register_parameter(name + ".weight", ones({config_.hidden_size}));
  norm.bias = register_parameter(name + ".bias", zeros({config_.hidden_size}));
  return norm;
}

DropoutKey EncoderLayer::dropout(double p, std::uint32_t place) const {
  return default_generator().dropout_key(training() ? static_cast<float>(p) : 0.0f, site() + place);
}

Variable EncoderLayer::forward(const Variable& hidden, const PackedBatch& batch,
                               const Variable& relative_bias) {
  using namespace autograd;
  const double p = config_.hidden_dropout_prob;
  const double eps = config_.layer_norm_eps;
  const Variable qkv = packed_linear(hidden, {query_.weight, key_.weight, value_.weight},
                                     {query_.bias, key_.bias, value_.bias});  // (T, 3H)
  const Variable context = attention(qkv, relative_bias, batch.cu_seqlens,
                                     {.heads = config_.num_attention_heads,
                                      .dropout = dropout(config_.attention_probs_dropout_prob, 0),
                                      .sentence_ids = batch.sentence_ids,
                                      .lengths = batch.lengths});  // (T, H)
  const Variable attended = linear(context, attention_dense_.weight, attention_dense_.bias);
  const Variable middle =
      residual_dropout_layer_norm(attended, hidden, dropout(p, 1), batch.positions,
                                  attention_norm_.weight, attention_norm_.bias, eps);
  const Variable expanded =
      linear_gelu(middle, intermediate_.weight, intermediate_.bias);  // (T, 4H)
  const Variable contracted = linear(expanded, output_.weight, output_.bias);
  return residual_dropout_layer_norm(contracted, middle, dropout(p, 2), batch.positions,
                                     output_norm_.weight, output_norm_.bias, eps);
}

}  // namespace ringlet::models
