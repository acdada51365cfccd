// Dropout of embeddings, in training.
#pragma once

#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/models/modules/sentence_modules.h"

namespace ringlet::models::modules {

class Dropout final : public SentenceModule {
 public:
  explicit Dropout(double p = 0.2) : p_(p) {}
  const char* kind() const override { return "Dropout"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    return std::make_shared<Dropout>(p_);
  }
  std::string to_json() const override;

 protected:
  /// A sentence has the same mask on every number of ranks: its id counts.
  Variable forward(const Variable& x, const PackedBatch& batch) override {
    if (!training()) return x;
    const Tensor& ids = batch.sentence_ids;
    return autograd::dropout(x, default_generator().dropout_key(static_cast<float>(p_), site()),
                             stack({ids, zeros_like(ids)}, 1));
  }

 private:
  double p_;
};

}  // namespace ringlet::models::modules
