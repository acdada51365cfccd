// The modules of a sentence encoder in the order of modules.json.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/base/names.h"
#include "ringlet/core/ops/pooling.h"
#include "ringlet/models/transformer.h"

namespace ringlet::models {

inline constexpr EnumNames<PoolingMode, 3> kPoolings{"pooling", {"mean", "cls", "max"}};

/// Places in modules.json.
inline constexpr std::size_t kTransformerModule = 0, kPoolingModule = 1, kFirstAfterPooling = 2;

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

/// The transformer, the pooling of its tokens and the modules after it. The transformer's
/// parameters keep their names; those of module i of modules.json are "modules.i.NAME" (from 2 on).
class SentenceModules final : public nn::Layer<SentenceModules> {
 public:
  using After = std::vector<std::shared_ptr<SentenceModule>>;
  SentenceModules(std::shared_ptr<Transformer> transformer, PoolingMode pooling, After after = {});
  const char* kind() const override { return "SentenceModules"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override;

  /// (S, dimension()), f32.
  Variable forward(const PackedBatch& batch);
  const std::shared_ptr<Transformer>& transformer() const { return transformer_; }
  PoolingMode pooling() const { return pooling_; }
  /// The modules after the pooling.
  const After& after() const { return after_; }
  std::int64_t dimension() const;
  /// The modules, and a digest of their settings: all that their result depends on but parameters.
  std::string describe() const;

 private:
  std::shared_ptr<Transformer> transformer_;
  PoolingMode pooling_;
  After after_;
};

}  // namespace ringlet::models
