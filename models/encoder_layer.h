// One post-LayerNorm transformer layer over packed sentences. The architectures' layers differ in
// the parameters' names; DistilBERT's has no dropout behind attention.
#pragma once

#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"
#include "ringlet/nn/attention.h"
#include "ringlet/nn/layers.h"
#include "ringlet/nn/linear.h"

namespace ringlet::models {

/// An architecture's names of a layer and of the parts that differ.
struct LayerNames {
  const char* kind;   // "MPNetLayer", the class of sharding units
  const char* query;  // prefixes of weight and bias
  const char* key;
  const char* value;
  const char* attention_dense;
  const char* attention_norm;
  const char* intermediate = "intermediate.dense";
  const char* output = "output.dense";
  const char* output_norm = "output.LayerNorm";
  bool attention_dropout = true;  // of attention's output, before it is added
};

/// Any layer of an encoder ("encoder.layer.3"), replaceable as a whole by nn::replace.
class TransformerLayer : public nn::Replaceable {
 public:
  bool is_unit() const override { return true; }

  /// hidden (T, H) -> (T, H); relative_bias (buckets, heads) or undefined.
  Variable operator()(const Variable& hidden, const PackedBatch& batch,
                      const Variable& relative_bias) {
    return enter([&] { return forward(hidden, batch, relative_bias); });
  }
  /// Whether slice_tokens can cut it: hidden is then this rank's rows of (T, H).
  virtual bool has_token_slices() const { return false; }
  virtual void slice_tokens(const nn::SlicesPtr&, const nn::Sliceable::Cut&) {}

 protected:
  virtual Variable forward(const Variable& hidden, const PackedBatch& batch,
                           const Variable& relative_bias) = 0;
};

/// Its projections, dense layers and LayerNorms are replaceable by a UnaryModule.
class EncoderLayer final : public TransformerLayer {
 public:
  EncoderLayer(const EncoderConfig& config, const LayerNames& names);
  const char* kind() const override { return kind_; }
  /// While no part is replaced.
  bool has_token_slices() const override;
  void slice_tokens(const nn::SlicesPtr& slices, const nn::Sliceable::Cut& cut) override;

 protected:
  Variable forward(const Variable& hidden, const PackedBatch& batch,
                   const Variable& relative_bias) override;

 private:
  // Whether add_and_norm computes the gradient of a bias in x: its backward has those sums.
  bool takes_bias(const nn::UnaryModule& norm) const;
  // norm(residual + dropout(x)), fused for a LayerNorm; `place` separates the layer's dropouts.
  // x_bias is in x; undefined unless takes_bias.
  Variable add_and_norm(const Variable& x, const Variable& x_bias, const Variable& residual,
                        const PackedBatch& batch, nn::UnaryModule& norm, double dropout,
                        std::uint32_t place) const;

  double attention_dropout_, dropout_;
  const char* kind_;
  std::shared_ptr<nn::SelfAttention> attention_;
  std::shared_ptr<nn::UnaryModule> attention_norm_;
  std::shared_ptr<nn::UnaryModule> intermediate_;  // (T, H) -> (T, 4H)
  std::shared_ptr<nn::UnaryModule> output_;        // (T, 4H) -> (T, H)
  std::shared_ptr<nn::UnaryModule> output_norm_;
  nn::LayerSlices tokens_;
};

/// During its lifetime, this thread builds models without memory for their large weights, which
/// must be set before they are read.
class BlankWeights {
 public:
  BlankWeights();
  ~BlankWeights();
  BlankWeights(const BlankWeights&) = delete;
  BlankWeights& operator=(const BlankWeights&) = delete;
  static bool active();

 private:
  bool previous_;
};

/// normal(0, config.initializer_range)
Tensor initial_weight(const EncoderConfig& config, const Shape& shape);

}  // namespace ringlet::models
