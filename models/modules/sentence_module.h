// The interface of a sentence encoder's modules after the pooling.
#pragma once

#include <string>

#include "ringlet/models/batch.h"
#include "ringlet/nn/module.h"

namespace ringlet::models {

/// Embeddings (S, C) -> (S, dimension(C)). kind() is the class in Sentence Transformers, and
/// parameters have its names.
class SentenceModule : public nn::Module {
 public:
  Variable operator()(const Variable& x, const PackedBatch& batch) {
    return enter([&] { return forward(x, batch); });
  }
  /// Columns of the result for embeddings of `width` columns.
  virtual std::int64_t dimension(std::int64_t width) const { return width; }
  /// The text of its config.json, for every release of Sentence Transformers; empty: no file.
  virtual std::string to_json() const { return {}; }

 protected:
  virtual Variable forward(const Variable& x, const PackedBatch& batch) = 0;
};

}  // namespace ringlet::models
