// Attention of packed sentences, their pooling, and attention of batches, with gradients.
#include "ringlet/autograd/functions.h"

#include <cmath>

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet::autograd {

Variable attention(const Variable& qkv, const Variable& relative_bias, const Tensor& cu_seqlens,
                   AttentionOptions options) {
  options.relative_bias = relative_bias ? relative_bias.tensor() : Tensor();
  const AttentionOutput out = ringlet::attention(qkv.tensor(), cu_seqlens, options);
  options.relative_bias = Tensor();
  auto backward = [qkv = Saved(qkv), bias = Saved(relative_bias), y = Saved(out.out), lse = out.lse,
                   cu_seqlens, options](const Tensor& grad, Gradients& grads) {
    AttentionOptions now = options;
    if (bias.defined()) now.relative_bias = bias.tensor(grads);
    Tensor grad_qkv =
        ringlet::attention_backward(grad, qkv.tensor(grads), {y.tensor(grads), lse}, cu_seqlens,
                                    now, grads[1].sink_of(now.relative_bias));
    if (grads[0].needed()) grads[0].set(std::move(grad_qkv));
  };
  return record("attention", out.out, {qkv, relative_bias}, std::move(backward));
}

Variable pooling(PoolingMode mode, const Variable& x, const Tensor& cu_seqlens,
                 const Tensor& lengths) {
  const PoolingOutput out = ringlet::pooling(mode, x.tensor(), cu_seqlens, lengths);
  auto backward = [mode, argmax = out.argmax, cu_seqlens, lengths, tokens = x.size(0),
                   dtype = x.dtype()](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::pooling_backward(mode, grad, argmax, cu_seqlens, tokens, dtype, lengths));
  };
  return record("pooling", out.y, {x}, std::move(backward));
}

Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                                      bool causal, const Tensor& mask) try {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  Variable scores = matmul(q * scale, k, {.trans_b = true});  // (.., L, S)
  const auto keep = [&](const Tensor& attended) {
    scores = where(attended, scores, scalar_like(-INFINITY, scores.tensor()));
  };
  if (mask) keep(mask);
  if (causal) keep(lower_triangle(q.size(-2), k.size(-2), 0, q.device()));
  return matmul(softmax(scores), v);
} catch (const Error& error) {
  fail_as("scaled_dot_product_attention", error);
}

Variable rotary_embedding(const Variable& x, double base) try {
  const std::int64_t half = x.size(-1) / 2;
  RINGLET_CHECK(half > 0 && x.size(-1) == 2 * half, "[rotary_embedding] the last dimension of ",
                x.shape(), " is not even");
  const auto count = [&](std::int64_t n) {
    return arange(0, static_cast<double>(n), 1, DType::f64, x.device());
  };
  const Tensor rate = ringlet::exp(count(half) * (-std::log(base) / static_cast<double>(half)));
  const Tensor angle = count(x.size(-2)).view({-1, 1}) * rate;  // (T, half)
  const Variable cosine = ringlet::cos(angle).to(x.dtype()),
                 sine = ringlet::sin(angle).to(x.dtype());
  const Variable first = narrow(x, -1, 0, half), second = narrow(x, -1, half, half);
  return concat({first * cosine - second * sine, second * cosine + first * sine}, -1);
} catch (const Error& error) {
  fail_as("rotary_embedding", error);
}

}  // namespace ringlet::autograd
