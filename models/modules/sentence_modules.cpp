#include "ringlet/models/modules/sentence_modules.h"

#include "ringlet/autograd/functions.h"
#include "ringlet/core/io/file.h"
#include "ringlet/nn/clone.h"

namespace ringlet::models {

SentenceModules::SentenceModules(std::shared_ptr<Transformer> transformer, PoolingMode pooling,
                                 After after)
    : transformer_(register_module("", std::move(transformer))),
      pooling_(pooling),
      after_(std::move(after)) {
  for (std::size_t i = 0; i < after_.size(); ++i)
    register_module(str("modules.", kFirstAfterPooling + i), after_[i]);
}

std::shared_ptr<nn::Module> SentenceModules::blank_copy(nn::Cloner& cloner) const {
  After after;
  for (const auto& module : after_) after.push_back(cloner(module));
  return std::make_shared<SentenceModules>(cloner(transformer_), pooling_, std::move(after));
}

Variable SentenceModules::forward(const PackedBatch& batch) {
  const Variable hidden = (*transformer_)(batch);                                     // (T, H)
  Variable x = autograd::pooling(pooling_, hidden, batch.cu_seqlens, batch.lengths);  // (S, H)
  for (const auto& module : after_) x = (*module)(x, batch);
  return x;
}

std::int64_t SentenceModules::dimension() const {
  std::int64_t width = transformer_->config().hidden_size;
  for (const auto& module : after_) width = module->dimension(width);
  return width;
}

std::string SentenceModules::describe() const {
  std::string names(kPoolings(pooling_)), settings = transformer_->config().to_json();
  for (const auto& module : after_) {
    names += str(", ", module->kind());
    settings += '\n' + module->to_json();
  }
  return str(transformer_->kind(), ", ", names, ", settings of SHA-256 ", short_sha256(settings));
}

}  // namespace ringlet::models
