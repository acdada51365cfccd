// The encoder stack: BERT and MPNet, which differ in their embeddings, in the relative position
// bias and in their parameters' names.
#pragma once

#include <memory>
#include <vector>

#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"
#include "ringlet/nn/module.h"

namespace ringlet::models {

/// Runs a transformer's batches elsewhere where nobody asks for gradients: dealt out to copies of
/// it on several devices.
class TransformerRunner {
 public:
  virtual ~TransformerRunner() = default;
  virtual Variable run(const PackedBatch& batch) = 0;
};

class Transformer : public nn::Module {
 public:
  /// The architecture that config names, with random weights: normal(0, initializer_range), biases
  /// 0, LayerNorm weights 1. Sentence embeddings need no pooler, so there is one only on request.
  static std::shared_ptr<Transformer> create(const EncoderConfig& config, bool with_pooler = false);

  /// Hidden states (T, H) of the batch's tokens, in the compute dtype.
  Variable operator()(const PackedBatch& batch) {
    return runner_ && !autograd::grad_enabled() ? runner_->run(batch) : run_here(batch);
  }
  /// Without asking the runner.
  Variable run_here(const PackedBatch& batch) {
    return enter([&] { return forward(batch); });
  }
  /// Who runs it without gradients from now on; null: itself.
  void set_runner(TransformerRunner* runner) { runner_ = runner; }
  /// What classifiers of whole texts start from: tanh(Linear(first token)), (S, H), f32, of the
  /// hidden states (T, H) of `batch`. Throws where there is no pooler.
  virtual Variable pooled(const Variable& hidden, const PackedBatch& batch) = 0;
  const EncoderConfig& config() const { return config_; }

  /// f32 (the default) or bf16: what activations are kept and multiplied in. Parameters, their
  /// gradients and all sums stay f32.
  DType compute_dtype() const override { return compute_dtype_; }
  void set_compute_dtype(DType dtype);
  /// Keeps only each layer's input and recomputes the rest in backward.
  void set_checkpointing(bool on) { checkpointing_ = on; }
  bool checkpointing() const { return checkpointing_; }

 protected:
  explicit Transformer(const EncoderConfig& config) : config_(config) {}
  virtual Variable forward(const PackedBatch& batch) = 0;

  EncoderConfig config_;
  DType compute_dtype_ = DType::f32;
  bool checkpointing_ = false;

 private:
  TransformerRunner* runner_ = nullptr;
};

}  // namespace ringlet::models
