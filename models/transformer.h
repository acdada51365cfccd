// The encoder stack. The architectures differ in their embeddings, in MPNet's relative position
// bias, in dropout and in their parameters' names.
#pragma once

#include <memory>
#include <vector>

#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"
#include "ringlet/nn/module.h"

namespace ringlet::models {

/// Layers [first, last) of an encoder. Layer 0 brings the embeddings with it.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const LayerRange&) const = default;
};

class Transformer : public nn::Module {
 public:
  /// The architecture that config names, with random weights: normal(0, initializer_range), biases
  /// 0, LayerNorm weights 1. Sentence embeddings need no pooler, hence the default; DistilBERT has
  /// none.
  static std::shared_ptr<Transformer> create(const EncoderConfig& config, bool with_pooler = false);

  /// Hidden states (T, H) of the batch's tokens, in the compute dtype.
  Variable operator()(const PackedBatch& batch) {
    return runner_ ? runner_->run(batch) : run_here(batch);
  }
  /// Bypasses the runner.
  Variable run_here(const PackedBatch& batch) {
    return enter([&] { return forward({0, config_.num_hidden_layers}, batch, {}).front(); });
  }
  /// Some layers alone. `inputs` are the results of the layers before: hidden states (T, H), and
  /// for MPNet the relative position bias (buckets, heads), which all layers read; none at layer 0.
  std::vector<Variable> run_layers(LayerRange layers, const PackedBatch& batch,
                                   std::vector<Variable> inputs) {
    return enter([&] { return forward(layers, batch, std::move(inputs)); });
  }
  /// The runner of batches; null: none.
  void set_runner(BatchRunner* runner) { runner_ = runner; }
  /// The input of text classifiers: tanh(Linear(first token)), (S, H), f32, of the hidden states
  /// (T, H) of `batch`. Throws without a pooler.
  virtual Variable pooled(const Variable& hidden, const PackedBatch& batch) = 0;
  const EncoderConfig& config() const { return config_; }

  /// f32 (the default) or bf16: the dtype of activations and of products' operands. Parameters,
  /// their gradients and all sums stay f32.
  DType compute_dtype() const override { return compute_dtype_; }
  void set_compute_dtype(DType dtype);
  /// Keeps only each layer's input and recomputes the rest in backward.
  void set_checkpointing(bool on) { checkpointing_ = on; }
  bool checkpointing() const { return checkpointing_; }
  void take_settings(const nn::Module& original) override;

 protected:
  explicit Transformer(const EncoderConfig& config) : config_(config) {}
  virtual std::vector<Variable> forward(LayerRange layers, const PackedBatch& batch,
                                        std::vector<Variable> state) = 0;

  EncoderConfig config_;
  DType compute_dtype_ = DType::f32;
  bool checkpointing_ = false;

 private:
  BatchRunner* runner_ = nullptr;
};

}  // namespace ringlet::models
