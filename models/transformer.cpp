#include "ringlet/models/transformer.h"

#include "ringlet/autograd/checkpoint.h"
#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/autograd/functions/view.h"
#include "ringlet/models/embeddings.h"
#include "ringlet/models/encoder_layer.h"

namespace ringlet::models {
namespace {

constexpr LayerNames kBertNames{"BertLayer",
                                "attention.self.query",
                                "attention.self.key",
                                "attention.self.value",
                                "attention.output.dense",
                                "attention.output.LayerNorm"};
constexpr LayerNames kMpnetNames{"MPNetLayer",       "attention.attn.q", "attention.attn.k",
                                 "attention.attn.v", "attention.attn.o", "attention.LayerNorm"};

// encoder.layer.0, encoder.layer.1, … and, for MPNet, the bias that all of them share.
class Encoder final : public nn::Module {
 public:
  explicit Encoder(const EncoderConfig& config) {
    const bool mpnet = config.architecture == Architecture::mpnet;
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
      layers.push_back(register_module(
          concat("layer.", i),
          std::make_shared<EncoderLayer>(config, mpnet ? kMpnetNames : kBertNames)));
    if (mpnet)
      relative_bias = register_parameter(
          "relative_attention_bias.weight",
          initial_weight(config,
                         {config.relative_attention_num_buckets, config.num_attention_heads}));
  }
  const char* kind() const override { return "Encoder"; }

  std::vector<std::shared_ptr<EncoderLayer>> layers;
  nn::Parameter relative_bias;  // (buckets, heads), MPNet only
};

// BERT and MPNet: their differences are in the config, the names and the bias.
class EncoderStack final : public Transformer {
 public:
  explicit EncoderStack(const EncoderConfig& config) : Transformer(config) {
    embeddings_ = register_module("embeddings", std::make_shared<Embeddings>(config));
    encoder_ = register_module("encoder", std::make_shared<Encoder>(config));
  }
  const char* kind() const override {
    return config_.architecture == Architecture::mpnet ? "MPNetModel" : "BertModel";
  }

 protected:
  Variable forward(const PackedBatch& batch) override {
    RINGLET_CHECK(batch.max_length <= config_.max_tokens(), "[", kind(), "] a sentence of ",
                  batch.max_length, " tokens, the longest possible has ", config_.max_tokens());
    Variable hidden = (*embeddings_)(batch, compute_dtype_);  // (T, H)
    for (const auto& layer : encoder_->layers) {
      const auto run = [batch, layer, bias = encoder_->relative_bias](const Variable& x) {
        return (*layer)(x, batch, bias);
      };
      hidden = checkpointing_ ? autograd::checkpoint(run, hidden) : run(hidden);
    }
    return hidden;
  }

 private:
  std::shared_ptr<Embeddings> embeddings_;
  std::shared_ptr<Encoder> encoder_;
};

}  // namespace

std::shared_ptr<Transformer> Transformer::create(const EncoderConfig& config) {
  return std::make_shared<EncoderStack>(config);
}

void Transformer::set_compute_dtype(DType dtype) {
  RINGLET_CHECK(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64,
                "[transformer] computes in f32 or bf16, not ", dtype);
  compute_dtype_ = dtype;
}

}  // namespace ringlet::models
