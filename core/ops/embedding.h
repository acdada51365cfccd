// Rows of tables by id, and the sum of embeddings that opens an encoder. Tables are f32 (f64);
// what is gathered may be bf16. Ids are i32; a CPU checks them before any kernel runs. A GPU
// gathers NaN for an id without a row, leaves it out of gradients, and the next copy to the host
// throws.
#pragma once

#include "ringlet/core/ops/layer_norm.h"

namespace ringlet {

struct EmbeddingArgs {
  void* out;                // (T, C)
  const void* weight;       // (V, C)
  const std::int32_t* ids;  // (T)
  std::int64_t tokens;
  std::int64_t rows;  // V
  std::int64_t columns;
  DType dtype;  // of out
};
extern OpKernel<EmbeddingArgs> embedding_kernel;

struct EmbeddingBackwardArgs {
  void* grad_weight;  // (V, C)
  double beta;
  const void* grad;         // (T, C)
  const std::int32_t* ids;  // (T)
  std::int32_t* next;       // (T) workspace
  std::int32_t padding;     // tokens with this id are left out, even if the table has no such row
  std::int64_t tokens;
  std::int64_t rows;  // V
  std::int64_t columns;
  DType dtype;  // of grad
};
extern OpKernel<EmbeddingBackwardArgs> embedding_backward_kernel;

struct EmbeddingSumArgs {
  void* y;                     // (T, C)
  void* normalized;            // (T, C)
  void* rstd;                  // (T)
  const void* table[3];        // word, position, token type (may be null)
  const std::int32_t* ids[3];  // (T) each
  std::int64_t rows[3];        // of the tables
  const void* weight;          // (C) of the LayerNorm
  const void* bias;            // (C)
  std::int64_t tokens;
  std::int64_t columns;
  double eps;
  RowDropout dropout;  // of y
  DType dtype;         // of y and normalized
};
extern OpKernel<EmbeddingSumArgs> embedding_sum_layer_norm_kernel;

/// weight (V, C), ids (T) -> (T, C) in `dtype` (f32 or bf16 from an f32 table, f64 from f64).
/// Throws when an id is not in 0..V-1, with its value and place.
Tensor embedding(const Tensor& weight, const Tensor& ids, DType dtype);
inline Tensor embedding(const Tensor& weight, const Tensor& ids) {
  return embedding(weight, ids, weight.dtype());
}
/// grad_weight = sum over the tokens of each id, in token order from +0, plus beta * grad_weight;
/// with beta 0, rows of no token become 0, with 1 they are not touched. A GPU adds up an id of many
/// tokens in several sums, in an order that its own tokens alone decide. Tokens of the id
/// `padding`, which may be -1, add nothing, as those of PyTorch's padding_idx.
void embedding_backward_into(GradientSink grad_weight, const Tensor& grad, const Tensor& ids,
                             std::int32_t padding = -1);

/// The tables of an encoder and which row of each every token takes.
struct EmbeddingTables {
  Tensor word;      // (V, C)
  Tensor position;  // (P, C)
  Tensor type;      // (2, C), undefined where the model has none (MPNet)
};
struct EmbeddingIds {
  Tensor word;      // (T)
  Tensor position;  // (T)
  Tensor type;      // (T), undefined as the table
  /// Rows that get no gradient; -1: none.
  std::int32_t word_padding = -1, position_padding = -1;
};

/// y = dropout(layer_norm(word[ids] + position[position_ids] + type[type_ids])), in `dtype`.
/// `positions` (T, 2) as for dropout().
ResidualLayerNormOutput embedding_sum_layer_norm(const EmbeddingTables& tables,
                                                 const EmbeddingIds& ids, const Tensor& weight,
                                                 const Tensor& bias, double eps,
                                                 const DropoutKey& key, const Tensor& positions,
                                                 DType dtype);
struct EmbeddingSinks {
  GradientSink word, position, type, weight, bias;
};
void embedding_sum_layer_norm_backward(EmbeddingSinks into, const Tensor& grad,
                                       const Tensor& normalized, const Tensor& rstd,
                                       const EmbeddingIds& ids, const Tensor& weight,
                                       const DropoutKey& key, const Tensor& positions);

}  // namespace ringlet
