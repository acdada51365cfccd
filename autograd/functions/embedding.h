// Rows of tables by id, and an encoder's first layer (their sum), as in core/ops/embedding.h, with
// gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/embedding.h"

namespace ringlet::autograd {

struct EmbeddingNode final : Node {
  Saved weight;  // (V, C)
  Tensor ids;    // (T)
  const char* name() const override { return "embedding"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].only_rows(ids);
    ringlet::embedding_backward_into(grads[0].sink_of(weight.tensor(*this)), grad, ids);
  }
};

/// weight (V, C), ids (T) i32 -> (T, C) in `dtype`.
inline Variable embedding(const Variable& weight, const Tensor& ids, DType dtype) {
  return record<EmbeddingNode>(ringlet::embedding(weight.tensor(), ids, dtype), {weight},
                               [&](EmbeddingNode& node) {
                                 node.weight = weight;
                                 node.ids = ids;
                               });
}
inline Variable embedding(const Variable& weight, const Tensor& ids) {
  return embedding(weight, ids, weight.dtype());
}

struct EmbeddingSumNode final : Node {
  Saved word, position, type;  // (V, C), (P, C), (2, C) or undefined
  Saved weight;                // (C)
  EmbeddingIds ids;
  Tensor normalized;  // (T, C)
  Tensor rstd;        // (T)
  DropoutKey key;
  Tensor positions;  // (T, 2) or undefined
  const char* name() const override { return "embedding_sum_layer_norm"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor& w = weight.tensor(*this);
    grads[0].only_rows(ids.word);
    const Tensor type_table = type.defined() ? type.tensor(*this) : Tensor();
    ringlet::embedding_sum_layer_norm_backward(
        {grads[0].sink_of(word.tensor(*this)), grads[1].sink_of(position.tensor(*this)),
         grads[2].sink_of(type_table), grads[3].sink_of(w), grads[4].sink_of(w)},
        grad, normalized, rstd, ids, w, key, positions);
  }
};

/// dropout(layer_norm(word[ids] + position[position_ids] + type[type_ids])) in `dtype`; `type` and
/// its ids may be undefined.
inline Variable embedding_sum_layer_norm(const Variable& word, const Variable& position,
                                         const Variable& type, const EmbeddingIds& ids,
                                         const Variable& weight, const Variable& bias, double eps,
                                         const DropoutKey& key, const Tensor& positions,
                                         DType dtype) {
  const EmbeddingTables tables{word.tensor(), position.tensor(), type ? type.tensor() : Tensor()};
  const ResidualLayerNormOutput out = ringlet::embedding_sum_layer_norm(
      tables, ids, weight.tensor(), bias.tensor(), eps, key, positions, dtype);
  return record<EmbeddingSumNode>(out.y, {word, position, type, weight, bias},
                                  [&](EmbeddingSumNode& node) {
                                    node.word = word;
                                    node.position = position;
                                    if (type) node.type = type;
                                    node.weight = weight;
                                    node.ids = ids;
                                    node.normalized = out.normalized;
                                    node.rstd = out.rstd;
                                    node.key = key;
                                    node.positions = positions;
                                  });
}

}  // namespace ringlet::autograd
