#include "ringlet/nn/attention.h"

namespace ringlet::nn {

SelfAttention::SelfAttention(std::int64_t size, SelfAttentionOptions options)
    : heads_(options.heads), dropout_(options.dropout) {
  RINGLET_CHECK(heads_ > 0 && size % heads_ == 0, "[SelfAttention] size ", size,
                " is not a multiple of ", heads_, " heads");
  const auto weight = [&](const std::string& name) {
    const Shape shape{size, size};
    return register_parameter(name + ".weight",
                              options.init ? options.init(shape) : fan_in_uniform(shape, size));
  };
  const auto bias = [&](const std::string& name) {
    return register_parameter(name + ".bias", zeros({size}));
  };
  query_weight_ = weight(options.query);
  key_weight_ = weight(options.key);
  value_weight_ = weight(options.value);
  query_bias_ = bias(options.query);
  key_bias_ = bias(options.key);
  value_bias_ = bias(options.value);
  output_weight_ = weight(options.output);
  output_bias_ = bias(options.output);
}

Variable SelfAttention::forward(const Variable& x, const Sentences& sentences,
                                const Variable& relative_bias) {
  const float p = training() ? static_cast<float>(dropout_) : 0;
  const Variable qkv = autograd::packed_linear(x, {query_weight_, key_weight_, value_weight_},
                                               {query_bias_, key_bias_, value_bias_});  // (T, 3H)
  const Variable context =
      autograd::attention(qkv, relative_bias, sentences.cu_seqlens,
                          {.heads = heads_,
                           .dropout = default_generator().dropout_key(p, site()),
                           .sentence_ids = sentences.sentence_ids,
                           .lengths = sentences.lengths});  // (T, H)
  return autograd::linear(context, output_weight_, output_bias_);
}

}  // namespace ringlet::nn
