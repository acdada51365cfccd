#include "ringlet/models/transformer.h"

#include <algorithm>

#include "ringlet/autograd/checkpoint.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/models/encoder_layer.h"
#include "ringlet/nn/linear.h"
#include "ringlet/nn/slices.h"

namespace ringlet::models {
namespace {

constexpr LayerNames bert_names(const char* kind) {
  return {kind,
          "attention.self.query",
          "attention.self.key",
          "attention.self.value",
          "attention.output.dense",
          "attention.output.LayerNorm"};
}

constexpr LayerNames kLayerNames[] = {  // by architecture
    bert_names("BertLayer"),
    {"MPNetLayer", "attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o",
     "attention.LayerNorm"},
    bert_names("RobertaLayer"),
    bert_names("XLMRobertaLayer"),
    {"TransformerBlock", "attention.q_lin", "attention.k_lin", "attention.v_lin",
     "attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm",
     /*attention_dropout=*/false}};

/// Word + position (+ token type), LayerNorm, dropout.
class Embeddings final : public nn::Layer<Embeddings>, public nn::Sliceable {
 public:
  explicit Embeddings(const EncoderConfig& config) : config_(config) {
    const std::int64_t hidden = config.hidden_size;
    word_ = register_parameter("word_embeddings.weight",
                               initial_weight(config, {config.vocab_size, hidden}));
    position_ =
        register_parameter("position_embeddings.weight",
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
  const char* kind() const override { return "Embeddings"; }
  bool is_unit() const override { return true; }

  /// (T, H) in `dtype`; token types, if the model has them, are all 0.
  Variable forward(const PackedBatch& batch, DType dtype) {
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

  /// By words. On one rank the table stays whole: of the slices' sum one term is not zero.
  std::int64_t pieces(nn::SliceKind kind) const override {
    return kind == nn::SliceKind::vocabulary ? config_.vocab_size : 0;
  }
  void slice(nn::SliceKind, const nn::SlicesPtr& slices, const nn::Sliceable::Cut& cut) override {
    if (slices->group().size() == 1) return;
    cut(word_, 0);
    slices_ = slices;
  }

 private:
  // (T, H). A word of another rank's slice is a row of zeros here.
  Variable words_of_all_ranks(const Tensor& ids) const {
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

  EncoderConfig config_;
  nn::Parameter word_, position_, token_type_, norm_weight_, norm_bias_;
  nn::SlicesPtr slices_;  // of word_, among several ranks
};

// encoder.layer.0, encoder.layer.1, … and, for MPNet, their shared relative position bias.
class Encoder final : public nn::Replaceable {
 public:
  explicit Encoder(const EncoderConfig& config) {
    const bool mpnet = config.architecture == Architecture::mpnet;
    layers.resize(static_cast<std::size_t>(config.num_hidden_layers));  // addresses stay valid
    for (std::size_t i = 0; i < layers.size(); ++i)
      register_replaceable<TransformerLayer>(
          str("layer.", i), layers[i],
          std::make_shared<EncoderLayer>(
              config, kLayerNames[static_cast<std::size_t>(config.architecture)]));
    if (mpnet)
      relative_bias = register_parameter(
          "relative_attention_bias.weight",
          initial_weight(config,
                         {config.relative_attention_num_buckets, config.num_attention_heads}));
  }
  const char* kind() const override { return "Encoder"; }

  std::vector<std::shared_ptr<TransformerLayer>> layers;
  nn::Parameter relative_bias;  // (buckets, heads), MPNet only
};

class Pooler final : public nn::Layer<Pooler, nn::Replaceable> {
 public:
  explicit Pooler(const EncoderConfig& config) {
    const std::int64_t hidden = config.hidden_size;
    register_replaceable<nn::UnaryModule>(
        "dense", dense_,
        std::make_shared<nn::Linear>(initial_weight(config, {hidden, hidden}), zeros({hidden})));
  }
  const char* kind() const override { return "Pooler"; }
  Variable forward(const Variable& first) { return autograd::tanh((*dense_)(first)); }

 private:
  std::shared_ptr<nn::UnaryModule> dense_;
};

class EncoderStack final : public Transformer, public nn::Sliceable {
 public:
  EncoderStack(const EncoderConfig& config, bool with_pooler) : Transformer(config) {
    embeddings_ = register_module("embeddings", std::make_shared<Embeddings>(config));
    const bool distilbert = config.architecture == Architecture::distilbert;
    RINGLET_CHECK(!(distilbert && with_pooler), "[", kind(), "] has no pooler");
    encoder_ =
        register_module(distilbert ? "transformer" : "encoder", std::make_shared<Encoder>(config));
    if (with_pooler) pooler_ = register_module("pooler", std::make_shared<Pooler>(config));
  }
  const char* kind() const override { return config_.model_class(); }
  Variable pooled(const Variable& hidden, const PackedBatch& batch) override {
    RINGLET_CHECK(pooler_, "[", kind(), "] has no pooler; ask create() for one");
    return (*pooler_)(autograd::pooling(PoolingMode::cls, hidden, batch.cu_seqlens));  // (S, H)
  }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    const BlankWeights without_memory;
    auto copy = std::make_shared<EncoderStack>(config_, pooler_ != nullptr);
    copy->take_settings(*this);
    return copy;
  }
  std::int64_t pieces(nn::SliceKind kind) const override {
    if (kind != nn::SliceKind::tokens) return 0;
    const bool all = std::ranges::all_of(encoder_->layers, &TransformerLayer::has_token_slices);
    return all ? config_.num_attention_heads : -1;
  }
  void slice(nn::SliceKind, const nn::SlicesPtr& slices, const Cut& cut) override {
    for (const auto& layer : encoder_->layers) layer->slice_tokens(slices, cut);
    tokens_ = *slices;
  }

 protected:
  std::vector<Variable> forward(LayerRange layers, const PackedBatch& batch,
                                std::vector<Variable> state) override {
    if (layers.first == 0) state = embed(batch);
    state[0] = tokens_.own_rows(state[0]);
    PackedBatch here = batch;  // where the layer is (nn::place)
    for (std::int64_t i = layers.first; i < layers.last; ++i) {
      const auto& layer = encoder_->layers[static_cast<std::size_t>(i)];
      if (const Device device = layer->device(state[0].device()); device != state[0].device()) {
        for (Variable& x : state) x = autograd::to(x, device);
        here = batch.to(device);
      }
      const auto run = [here, layer](const std::vector<Variable>& x) {
        return (*layer)(x[0], here, x.size() > 1 ? x[1] : Variable());
      };
      state[0] = checkpointing_ ? autograd::checkpoint(run, state) : run(state);
    }
    state[0] = tokens_.all_rows(state[0], batch.tokens());
    if (layers.last == config_.num_hidden_layers)
      state[0] = autograd::to(state[0], batch.token_ids.device());
    return state;
  }

 private:
  std::vector<Variable> embed(const PackedBatch& batch) {
    RINGLET_CHECK(batch.max_length <= config_.max_tokens(), "[", kind(), "] a sentence of ",
                  batch.max_length, " tokens, the longest possible has ", config_.max_tokens());
    std::vector<Variable> state{(*embeddings_)(batch, compute_dtype_)};
    // The layers' gradients of the bias meet in one node, for a pipeline's stages to add them in
    // the same order.
    if (const nn::Parameter& bias = encoder_->relative_bias; bias)
      state.push_back(autograd::view(bias, bias.shape()));
    return state;
  }

  std::shared_ptr<Embeddings> embeddings_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Pooler> pooler_;  // empty without with_pooler
  nn::LayerSlices tokens_;
};

}  // namespace

std::shared_ptr<Transformer> Transformer::create(const EncoderConfig& config, bool with_pooler) {
  return std::make_shared<EncoderStack>(config, with_pooler);
}

void Transformer::take_settings(const nn::Module& original) {
  const auto& from = dynamic_cast<const Transformer&>(original);
  compute_dtype_ = from.compute_dtype_;
  checkpointing_ = from.checkpointing_;
}

void Transformer::set_compute_dtype(DType dtype) {
  RINGLET_CHECK(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64,
                "[transformer] computes in f32 or bf16, not ", dtype);
  compute_dtype_ = dtype;
}

}  // namespace ringlet::models
