#include "ringlet/models/embeddings.h"

#include "ringlet/autograd/functions.h"
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
  EmbeddingIds ids{
      batch.token_ids, counted ? batch.counted_position : batch.token_index, {}};  // (T) each
  ids.word_padding = static_cast<std::int32_t>(config_.padding_id());
  if (counted) ids.position_padding = kCountedPadding;
  if (token_type_) ids.type = zeros_like(ids.word);
  const double p = training() ? config_.hidden_dropout_prob : 0;
  Variable word = word_;
  if (slices_) {  // the sum over the ranks comes first; its rows are those of the tokens
    word = words_of_all_ranks(ids.word);
    ids.word = arange(0, static_cast<double>(word.size(0)), 1, DType::i32, word.device());
    ids.word_padding = -1;
  }
  return autograd::embedding_sum_layer_norm(
      word, position_, token_type_, ids, norm_weight_, norm_bias_, config_.layer_norm_eps,
      default_generator().dropout_key(static_cast<float>(p), site()), batch.positions, dtype);
}

std::int64_t Embeddings::pieces(nn::SliceKind kind) const {
  return kind == nn::SliceKind::vocabulary ? config_.vocab_size : 0;
}

void Embeddings::slice(nn::SliceKind, const nn::SlicesPtr& slices, const nn::Sliceable::Cut& cut) {
  if (slices->group().size() == 1) return;
  cut(word_, 0);
  slices_ = slices;
}

// (T, H). A word of another rank's slice is a row of zeros here.
Variable Embeddings::words_of_all_ranks(const Tensor& ids) const {
  const std::int64_t words = word_.size(0);
  const std::int64_t begin =
      nn::slice_edge(config_.vocab_size, slices_->number(0), slices_->count());
  const Tensor from_begin = sub(ids, scalar_like(static_cast<double>(begin), ids));
  const bool first = begin == 0, last = begin + words == config_.vocab_size;
  Tensor mine = from_begin;  // an id of no word stays outside of the table, where it is an error
  if (!first) mine = maximum(mine, scalar_like(0, ids));
  if (!last) mine = minimum(mine, scalar_like(static_cast<double>(words - 1), ids));
  const Tensor is_mine = eq(mine, from_begin);
  // A long run of one word's tokens would be summed in another order on a GPU.
  const Tensor no_word = scalar_like(-1, ids);
  const Tensor counted = where(ne(ids, scalar_like(config_.padding_id(), ids)),
                               where(is_mine, mine, no_word), no_word);
  const Variable rows = autograd::embedding(word_, mine, word_.dtype(), counted);
  const Variable zero(scalar_like(0, rows.tensor()));
  return slices_->sum({autograd::where(is_mine.view({ids.numel(), 1}), rows, zero)});
}

}  // namespace ringlet::models
