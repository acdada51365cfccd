#include "ringlet/nn/attention.h"

#include "ringlet/autograd/functions.h"

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
  const auto replaceable = [&](const std::string& name, std::shared_ptr<UnaryModule>& member,
                               const Parameter& w, const Parameter& b) {
    register_replaceable(name, member, {name + ".weight", name + ".bias"},
                         [w, b] { return std::make_shared<Linear>(w, b); });
  };
  replaceable(options.query, query_, query_weight_, query_bias_);
  replaceable(options.key, key_, key_weight_, key_bias_);
  replaceable(options.value, value_, value_weight_, value_bias_);
  replaceable(options.output, output_, output_weight_, output_bias_);
}

Variable SelfAttention::project(const Variable& x) {
  if (!query_ && !key_ && !value_)
    return autograd::packed_linear(x, {query_weight_, key_weight_, value_weight_},
                                   {query_bias_, key_bias_, value_bias_});
  const auto one = [&](const std::shared_ptr<UnaryModule>& layer, const Parameter& weight,
                       const Parameter& bias) {
    if (!layer) return autograd::linear(x, weight, bias);
    const Variable y = (*layer)(x);
    check_shape("SelfAttention", (layer->path() + "'s output").c_str(), y.tensor(), x.shape());
    return y;
  };
  return autograd::concat(
      {one(query_, query_weight_, query_bias_), one(key_, key_weight_, key_bias_),
       one(value_, value_weight_, value_bias_)},
      1);
}

AttentionOptions SelfAttention::options(const Sentences& sentences) const {
  const float p = training() ? static_cast<float>(dropout_) : 0;
  return {.heads = heads_,
          .dropout = default_generator().dropout_key(p, site()),
          .sentence_ids = sentences.sentence_ids,
          .lengths = sentences.lengths};
}

Variable SelfAttention::forward(const Variable& x, const Sentences& sentences,
                                const Variable& relative_bias, Variable* open_bias) {
  if (slices_) return in_slices(x, sentences, relative_bias);
  const Variable qkv = project(x);  // (T, 3H)
  const Variable context = autograd::attention(qkv, relative_bias, sentences.cu_seqlens,
                                               options(sentences));  // (T, H)
  if (output_) return (*output_)(context);
  // The gradient of a unit's parameter is computed inside the unit.
  return autograd::linear(context, output_weight_, output_bias_,
                          strategy_hooks().pre_backward ? nullptr : open_bias);
}

std::int64_t SelfAttention::pieces(SliceKind kind) const {
  if (kind != SliceKind::heads) return 0;
  const bool replaced = query_ || key_ || value_ || output_;
  return replaced ? -1 : heads_;
}

void SelfAttention::slice(SliceKind, const SlicesPtr& slices, const Cut& cut) {
  for (const Parameter* rows :
       {&query_weight_, &key_weight_, &value_weight_, &query_bias_, &key_bias_, &value_bias_})
    cut(*rows, 0);
  cut(output_weight_, 1);
  slices_ = slices;
}

Variable SelfAttention::in_slices(const Variable& x, const Sentences& sentences,
                                  const Variable& relative_bias) {
  RINGLET_CHECK(pieces(SliceKind::heads) > 0,
                "[tensor] a projection of attention was replaced after the heads were cut");
  const std::vector<Variable> inputs = slices_->inputs(x, sentences.tokens);
  std::vector<Variable> partial;
  AttentionOptions of_slice = options(sentences);
  of_slice.heads = heads_ / slices_->count();
  for (int i = 0; i < slices_->here(); ++i) {
    const auto part = [&](const Variable& whole, int axis) {
      return slices_->part(whole, axis, i);
    };
    const Variable qkv = autograd::packed_linear(
        inputs[static_cast<std::size_t>(i)],
        {part(query_weight_, 0), part(key_weight_, 0), part(value_weight_, 0)},
        {part(query_bias_, 0), part(key_bias_, 0), part(value_bias_, 0)});  // (T, 3H / count)
    of_slice.first_head = slices_->number(i) * of_slice.heads;
    const Variable context =
        autograd::attention(qkv, part(relative_bias, 1), sentences.cu_seqlens, of_slice);
    partial.push_back(autograd::linear(context, part(output_weight_, 1)));  // (T, H)
  }
  return slices_->sum(partial, output_bias_);
}

}  // namespace ringlet::nn
