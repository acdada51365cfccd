#include "ringlet/core/ops/embedding.h"

#include <optional>

#include "ringlet/core/ops/bad_input.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<EmbeddingArgs> embedding_kernel("embedding");
constinit OpKernel<EmbeddingBackwardArgs> embedding_backward_kernel("embedding_backward");
constinit OpKernel<EmbeddingSumArgs> embedding_sum_layer_norm_kernel("embedding_sum_layer_norm");

namespace {

void check_table(const char* op, const char* what, const Tensor& table, DType dtype) {
  RINGLET_CHECK(table.dim() == 2, "[", op, "] the ", what, " table is ", table.shape(),
                ", expected (rows, columns)");
  RINGLET_CHECK_EQ(table.dtype(), parameter_dtype(dtype), "[", op, "] dtype of the ", what,
                   " table beside ", dtype, " activations");
}

void check_ids(const char* op, BadInputKind kind, const Tensor& table, const Tensor& ids,
               std::int64_t tokens, std::optional<std::int32_t> allowed = {}) {
  check_tensor(op, "ids", ids, {tokens}, DType::i32, table.device());
  const std::int32_t* id = ids.data<std::int32_t>();
  if (ids.device().type != DeviceType::cpu) return;
  for (std::int64_t t = 0; t < tokens; ++t)
    if ((id[t] < 0 || id[t] >= table.size(0)) && id[t] != allowed)
      fail_bad_input({kind, t, id[t], table.size(0)});
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& ids, DType dtype) {
  check_table("embedding", "word", weight, dtype);
  check_ids("embedding", BadInputKind::word_id, weight, ids, ids.numel());
  Tensor out = empty({ids.numel(), weight.size(1)}, dtype, weight.device());
  if (out.numel() > 0)
    embedding_kernel({out.mutable_bytes(), weight.bytes(), ids.data<std::int32_t>(), ids.numel(),
                      weight.size(0), weight.size(1), dtype},
                     weight.device());
  return out;
}

void embedding_backward_into(GradientSink grad_weight, const Tensor& grad, const Tensor& ids,
                             std::int32_t padding) {
  if (!grad_weight) return;
  const Tensor& table = grad_weight.out;
  check_same_device("embedding", table, grad);
  check_table("embedding", "word", table, grad.dtype());
  check_ids("embedding", BadInputKind::word_id, table, ids, ids.numel(), padding);
  check_shape("embedding", "gradient", grad, {ids.numel(), table.size(1)});
  const std::int64_t rows = table.size(0), columns = table.size(1);
  if (table.numel() == 0) return;
  Tensor next = empty({ids.numel()}, DType::i32, grad.device());
  embedding_backward_kernel(
      {grad_weight.bytes(), grad_weight.beta, grad.bytes(), ids.data<std::int32_t>(),
       next.mutable_data<std::int32_t>(), padding, ids.numel(), rows, columns, grad.dtype()},
      grad.device());
}

ResidualLayerNormOutput embedding_sum_layer_norm(const EmbeddingTables& tables,
                                                 const EmbeddingIds& ids, const Tensor& weight,
                                                 const Tensor& bias, double eps,
                                                 const DropoutKey& key, const Tensor& positions,
                                                 DType dtype) {
  constexpr const char* kOp = "embedding_sum_layer_norm";
  const Tensor* table[3] = {&tables.word, &tables.position, &tables.type};
  const Tensor* id[3] = {&ids.word, &ids.position, &ids.type};
  const std::int64_t tokens = ids.word.numel();
  const Device device = tables.word.device();
  EmbeddingSumArgs args{};
  for (int i = 0; i < 3; ++i) {
    RINGLET_CHECK_EQ(table[i]->defined(), id[i]->defined(), "[", kOp, "] the ",
                     table_name(id_kind(i)), " table and its ids come together");
    if (!table[i]->defined()) continue;
    check_table(kOp, table_name(id_kind(i)), *table[i], dtype);
    check_same_device(kOp, tables.word, *table[i]);
    RINGLET_CHECK_EQ(table[i]->size(1), tables.word.size(1), "[", kOp, "] columns of the ",
                     table_name(id_kind(i)), " table");
    check_ids(kOp, id_kind(i), *table[i], *id[i], tokens);
    args.table[i] = table[i]->bytes();
    args.ids[i] = id[i]->data<std::int32_t>();
    args.rows[i] = table[i]->size(0);
  }
  args.columns = tables.word.size(1);
  RINGLET_CHECK(args.columns > 0, "[", kOp, "] no columns in the word table");
  for (const Tensor& parameter : {weight, bias})
    check_tensor(kOp, "weight or bias", parameter, {args.columns}, tables.word.dtype(), device);
  ResidualLayerNormOutput out{empty({tokens, args.columns}, dtype, device),
                              empty({tokens, args.columns}, dtype, device),
                              empty({tokens}, weight.dtype(), device)};
  args.y = out.y.mutable_bytes();
  args.normalized = out.normalized.mutable_bytes();
  args.rstd = out.rstd.mutable_bytes();
  args.weight = weight.bytes();
  args.bias = bias.bytes();
  args.tokens = tokens;
  args.eps = eps;
  if (positions) check_same_device(kOp, tables.word, positions);
  args.dropout = row_dropout(kOp, key, positions, tokens);
  args.dtype = dtype;
  if (tokens > 0) embedding_sum_layer_norm_kernel(args, device);
  return out;
}

void embedding_sum_layer_norm_backward(EmbeddingSinks into, const Tensor& grad,
                                       const Tensor& normalized, const Tensor& rstd,
                                       const EmbeddingIds& ids, const Tensor& weight,
                                       const DropoutKey& key, const Tensor& positions) {
  const Tensor grad_sum = layer_norm_dropout_backward(grad, normalized, rstd, weight, key,
                                                      positions, into.weight, into.bias);
  embedding_backward_into(into.word, grad_sum, ids.word, ids.word_padding);
  embedding_backward_into(into.position, grad_sum, ids.position, ids.position_padding);
  embedding_backward_into(into.type, grad_sum, ids.type);
}

}  // namespace ringlet
