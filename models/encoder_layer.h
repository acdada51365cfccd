// One post-LayerNorm transformer layer over packed sentences, the same in BERT and MPNet but for
// the parameters' names.
#pragma once

#include "ringlet/core/random.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"
#include "ringlet/nn/module.h"

namespace ringlet::models {

/// What an architecture calls a layer and the parts of it that differ.
struct LayerNames {
  const char* kind;   // "MPNetLayer", the class to wrap units by
  const char* query;  // prefixes of weight and bias
  const char* key;
  const char* value;
  const char* attention_dense;
  const char* attention_norm;
};

class EncoderLayer final : public nn::Layer<EncoderLayer> {
 public:
  EncoderLayer(const EncoderConfig& config, const LayerNames& names);
  const char* kind() const override { return kind_; }
  bool is_unit() const override { return true; }

  /// hidden (T, H) -> (T, H); relative_bias (buckets, heads) or undefined.
  Variable forward(const Variable& hidden, const PackedBatch& batch, const Variable& relative_bias);

 private:
  struct Dense {
    nn::Parameter weight;  // (out, in)
    nn::Parameter bias;    // (out)
  };
  Dense register_dense(const std::string& name, std::int64_t out, std::int64_t in);
  Dense register_norm(const std::string& name);
  DropoutKey dropout(double p, std::uint32_t place) const;

  EncoderConfig config_;
  const char* kind_;
  Dense query_, key_, value_, attention_dense_, attention_norm_;
  Dense intermediate_, output_, output_norm_;
};

/// normal(0, config.initializer_range)
Tensor initial_weight(const EncoderConfig& config, const Shape& shape);

}  // namespace ringlet::models
