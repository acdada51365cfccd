// Normalize: embeddings of length 1.
#pragma once

#include "ringlet/autograd/functions.h"
#include "ringlet/models/modules/sentence_modules.h"

namespace ringlet::models::modules {

class Normalize final : public SentenceModule {
 public:
  const char* kind() const override { return "Normalize"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    return std::make_shared<Normalize>();
  }

 protected:
  Variable forward(const Variable& x, const PackedBatch&) override {
    return autograd::normalize(x);
  }
};

}  // namespace ringlet::models::modules
