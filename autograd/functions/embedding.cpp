// Rows of tables by id, and an encoder's first layer (their sum), with gradients.
#include "ringlet/autograd/functions.h"

#include "ringlet/autograd/node.h"

namespace ringlet::autograd {

Variable embedding(const Variable& weight, const Tensor& ids, DType dtype, const Tensor& counted) {
  auto backward = [weight = Saved(weight), ids, counted](const Tensor& grad, Gradients& grads) {
    grads[0].only_rows(ids);
    ringlet::embedding_backward_into(grads[0].sink_of(weight.tensor(grads)), grad,
                                     counted ? counted : ids);
  };
  return record("embedding", ringlet::embedding(weight.tensor(), ids, dtype), {weight},
                std::move(backward));
}
Variable embedding(const Variable& weight, const Tensor& ids) {
  return embedding(weight, ids, weight.dtype());
}

Variable embedding_sum_layer_norm(const Variable& word, const Variable& position,
                                  const Variable& type, const EmbeddingIds& ids,
                                  const Variable& weight, const Variable& bias, double eps,
                                  const DropoutKey& key, const Tensor& positions, DType dtype) {
  const EmbeddingTables tables{word.tensor(), position.tensor(), type ? type.tensor() : Tensor()};
  const ResidualLayerNormOutput out = ringlet::embedding_sum_layer_norm(
      tables, ids, weight.tensor(), bias.tensor(), eps, key, positions, dtype);
  auto backward = [word = Saved(word), position = Saved(position), type = Saved(type),
                   weight = Saved(weight), ids, normalized = out.normalized, rstd = out.rstd, key,
                   positions](const Tensor& grad, Gradients& grads) {
    const Tensor& w = weight.tensor(grads);
    grads[0].only_rows(ids.word);
    const Tensor type_table = type.defined() ? type.tensor(grads) : Tensor();
    ringlet::embedding_sum_layer_norm_backward(
        {grads[0].sink_of(word.tensor(grads)), grads[1].sink_of(position.tensor(grads)),
         grads[2].sink_of(type_table), grads[3].sink_of(w), grads[4].sink_of(w)},
        grad, normalized, rstd, ids, w, key, positions);
  };
  return record("embedding_sum_layer_norm", out.y, {word, position, type, weight, bias},
                std::move(backward));
}

}  // namespace ringlet::autograd
