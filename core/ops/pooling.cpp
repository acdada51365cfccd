#include "ringlet/core/ops/pooling.h"

#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<PoolingArgs> pooling_kernel("pooling");
constinit OpKernel<PoolingBackwardArgs> pooling_backward_kernel("pooling_backward");

namespace {

void check_not_empty(const Tensor& cu_seqlens) {
  if (cu_seqlens.device().type != DeviceType::cpu) return;
  const std::int32_t* at = cu_seqlens.data<std::int32_t>();
  for (std::int64_t s = 0; s + 1 < cu_seqlens.numel(); ++s)
    RINGLET_CHECK(at[s] < at[s + 1], "[pooling] sentence ", s,
                  " is empty: it has no first token and no maximum");
}

// The checks of forward and backward on sentences packed into `tokens` rows.
void check_sentences(PoolingMode mode, const Tensor& cu_seqlens, std::int64_t tokens,
                     const Tensor& lengths) {
  check_cu_seqlens("pooling", cu_seqlens, tokens);
  if (mode != PoolingMode::mean) check_not_empty(cu_seqlens);
  if (lengths) check_lengths("pooling", lengths, cu_seqlens);
}

// Each a token of its own sentence (S, C), which was checked.
void check_argmax(const Tensor& argmax, const Tensor& cu_seqlens) {
  if (argmax.device().type != DeviceType::cpu) return;
  const std::int32_t* token = argmax.data<std::int32_t>();
  const std::int32_t* at = cu_seqlens.data<std::int32_t>();
  for (std::int64_t s = 0; s < argmax.size(0); ++s)
    for (std::int64_t c = 0; c < argmax.size(1); ++c, ++token)
      RINGLET_CHECK(at[s] <= *token && *token < at[s + 1], "[pooling] the maximum of column ", c,
                    " of sentence ", s, " is token ", *token, ", expected ", at[s], " to ",
                    at[s + 1] - 1);
}

const std::int32_t* lengths_of(const Tensor& lengths) {
  return lengths ? lengths.data<std::int32_t>() : nullptr;
}

}  // namespace

PoolingOutput pooling(PoolingMode mode, const Tensor& x, const Tensor& cu_seqlens,
                      const Tensor& lengths) {
  RINGLET_CHECK(x.dim() == 2, "[pooling] x is ", x.shape(), ", expected (tokens, columns)");
  check_same_device("pooling", x, cu_seqlens);
  check_sentences(mode, cu_seqlens, x.size(0), lengths);
  const std::int64_t sentences = cu_seqlens.numel() - 1, columns = x.size(1);
  PoolingOutput out{empty({sentences, columns}, parameter_dtype(x.dtype()), x.device()), {}};
  if (mode == PoolingMode::max) out.argmax = empty({sentences, columns}, DType::i32, x.device());
  if (out.y.numel() > 0)
    pooling_kernel(
        {out.y.mutable_bytes(), out.argmax ? out.argmax.mutable_data<std::int32_t>() : nullptr,
         x.bytes(), cu_seqlens.data<std::int32_t>(), lengths_of(lengths), sentences, x.size(0),
         columns, mode, x.dtype()},
        x.device());
  return out;
}

Tensor pooling_backward(PoolingMode mode, const Tensor& grad, const Tensor& argmax,
                        const Tensor& cu_seqlens, std::int64_t tokens, DType dtype,
                        const Tensor& lengths) {
  check_same_device("pooling", grad, cu_seqlens);
  check_sentences(mode, cu_seqlens, tokens, lengths);
  RINGLET_CHECK_EQ(grad.dtype(), parameter_dtype(dtype), "[pooling] dtype of the gradient");
  RINGLET_CHECK(grad.dim() == 2 && grad.size(0) == cu_seqlens.numel() - 1, "[pooling] gradient of ",
                grad.shape(), " for ", cu_seqlens.numel() - 1, " sentences");
  RINGLET_CHECK_EQ(argmax.defined(), mode == PoolingMode::max, "[pooling] argmax given, max asked");
  if (argmax) {
    check_tensor("pooling", "argmax", argmax, grad.shape(), DType::i32, grad.device());
    check_argmax(argmax, cu_seqlens);
  }
  Tensor grad_x = empty({tokens, grad.size(1)}, dtype, grad.device());
  if (grad_x.numel() > 0)
    pooling_backward_kernel(
        {grad_x.mutable_bytes(), grad.bytes(), argmax ? argmax.data<std::int32_t>() : nullptr,
         cu_seqlens.data<std::int32_t>(), lengths_of(lengths), grad.size(0), tokens, grad.size(1),
         mode, dtype},
        grad.device());
  return grad_x;
}

}  // namespace ringlet
