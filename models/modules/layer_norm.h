// LayerNorm of embeddings.
#pragma once

#include "ringlet/models/modules/sentence_modules.h"
#include "ringlet/nn/layers.h"

namespace ringlet::models::modules {

class LayerNorm final : public SentenceModule {
 public:
  explicit LayerNorm(std::int64_t dimension)
      : norm_(register_module("norm", std::make_shared<nn::LayerNorm>(dimension))) {}
  const char* kind() const override { return "LayerNorm"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    return std::make_shared<LayerNorm>(norm_->weight.size(0));
  }
  std::string to_json() const override {
    return str("{\"dimension\": ", norm_->weight.size(0), '}');
  }

 protected:
  Variable forward(const Variable& x, const PackedBatch&) override { return (*norm_)(x); }

 private:
  std::shared_ptr<nn::LayerNorm> norm_;
};

}  // namespace ringlet::models::modules
