// A small classifier of word pairs with dropout: enough of a model to train in milliseconds.
#pragma once

#include <memory>

#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/tests/train/results.h"

namespace words {

struct Encoder : ringlet::nn::Layer<Encoder> {
  explicit Encoder(std::int64_t size) {
    embedding =
        register_parameter("embeddings.weight", ringlet::scale(ringlet::normal({9, size}), 0.3));
  }
  bool is_unit() const override { return true; }

  /// Means of each sentence's words, (S, H).
  ringlet::Variable forward(const ringlet::models::PackedBatch& batch) {
    using namespace ringlet;
    const auto starts = batch.cu_seqlens.to_vector<std::int64_t>();
    std::vector<float> mean(static_cast<std::size_t>(batch.sentences() * batch.tokens()));
    for (std::size_t s = 0; s + 1 < starts.size(); ++s)
      for (std::int64_t t = starts[s]; t < starts[s + 1]; ++t)
        mean[s * static_cast<std::size_t>(batch.tokens()) + static_cast<std::size_t>(t)] =
            1.0f / static_cast<float>(starts[s + 1] - starts[s]);
    Variable hidden = autograd::embedding(embedding, batch.token_ids);  // (T, H)
    if (training())
      hidden =
          autograd::dropout(hidden, default_generator().dropout_key(0.1f, site()), batch.positions);
    return autograd::matmul(Variable(tensor(mean, {batch.sentences(), batch.tokens()})), hidden);
  }
  ringlet::nn::Parameter embedding;
};

/// Cross-entropy of a linear layer over both means.
struct Loss : ringlet::models::Loss {
  Loss(std::shared_ptr<Encoder> shared, std::int64_t classes) : encoder(shared) {
    register_module("", std::move(shared));
    const std::int64_t size = encoder->embedding.size(1);
    weight = register_parameter("classifier.weight",
                                ringlet::scale(ringlet::normal({classes, 2 * size}), 0.3));
    bias = register_parameter("classifier.bias", ringlet::zeros({classes}));
  }
  ringlet::Variable logits(const ringlet::models::PackedBatch& batch) {  // (rows, classes)
    using namespace ringlet::autograd;
    const ringlet::Variable both = (*encoder)(batch);  // (2 R, H)
    const ringlet::Variable features =
        concat({slice(both, 0, batch.rows), slice(both, batch.rows, 2 * batch.rows)}, 1);
    return linear(features, weight, bias);
  }
  ringlet::Variable forward(const ringlet::models::PackedBatch& batch) override {
    return ringlet::autograd::cross_entropy(logits(batch), batch.labels,
                                            static_cast<double>(batch.global_rows));
  }
  std::shared_ptr<Encoder> encoder;
  ringlet::nn::Parameter weight, bias;
};

/// An encoder with the same initial weights in every call.
inline std::shared_ptr<Encoder> encoder(std::int64_t size = 8) {
  const ringlet::GeneratorGuard guard({1, 0, 0});
  return std::make_shared<Encoder>(size);
}
inline std::shared_ptr<Loss> loss(std::shared_ptr<Encoder> shared, std::int64_t classes) {
  const ringlet::GeneratorGuard guard({2, 0, 0});
  return std::make_shared<Loss>(std::move(shared), classes);
}
inline std::shared_ptr<Loss> loss(std::int64_t classes) { return loss(encoder(), classes); }

}  // namespace words
