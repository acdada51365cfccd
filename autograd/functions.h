// Differentiable functions. Each computes what core's function of the same name computes
// (core/ops) and records its gradient; shapes and errors are those of core.
#pragma once

#include <cstdint>
#include <vector>

#include "ringlet/autograd/variable.h"
#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/convolution.h"
#include "ringlet/core/ops/cosine_similarity.h"
#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/normalize.h"
#include "ringlet/core/ops/pooling.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "ringlet/core/ops/softmax.h"

namespace ringlet::autograd {

// ---- element-wise; gradients are summed over broadcast dimensions ---------------------------

Variable unary(UnaryOp op, const Variable& x);
inline Variable neg(const Variable& x) { return unary(UnaryOp::neg, x); }
inline Variable abs(const Variable& x) { return unary(UnaryOp::abs, x); }
inline Variable exp(const Variable& x) { return unary(UnaryOp::exp, x); }
inline Variable log(const Variable& x) { return unary(UnaryOp::log, x); }
inline Variable sqrt(const Variable& x) { return unary(UnaryOp::sqrt, x); }
inline Variable rsqrt(const Variable& x) { return unary(UnaryOp::rsqrt, x); }
inline Variable tanh(const Variable& x) { return unary(UnaryOp::tanh, x); }
inline Variable sigmoid(const Variable& x) { return unary(UnaryOp::sigmoid, x); }
inline Variable relu(const Variable& x) { return unary(UnaryOp::relu, x); }
inline Variable gelu(const Variable& x) { return unary(UnaryOp::gelu, x); }
inline Variable square(const Variable& x) { return unary(UnaryOp::square, x); }
inline Variable reciprocal(const Variable& x) { return unary(UnaryOp::reciprocal, x); }
inline Variable sin(const Variable& x) { return unary(UnaryOp::sin, x); }
inline Variable cos(const Variable& x) { return unary(UnaryOp::cos, x); }
inline Variable log1p(const Variable& x) { return unary(UnaryOp::log1p, x); }

Variable binary(BinaryOp op, const Variable& a, const Variable& b);
inline Variable add(const Variable& a, const Variable& b) { return binary(BinaryOp::add, a, b); }
inline Variable sub(const Variable& a, const Variable& b) { return binary(BinaryOp::sub, a, b); }
inline Variable mul(const Variable& a, const Variable& b) { return binary(BinaryOp::mul, a, b); }
inline Variable div(const Variable& a, const Variable& b) { return binary(BinaryOp::div, a, b); }
inline Variable pow(const Variable& a, const Variable& b) { return binary(BinaryOp::pow, a, b); }
Variable pow(const Variable& x, double exponent);
inline Variable maximum(const Variable& a, const Variable& b) {
  return binary(BinaryOp::maximum, a, b);
}
inline Variable minimum(const Variable& a, const Variable& b) {
  return binary(BinaryOp::minimum, a, b);
}
inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }
inline Variable operator-(const Variable& x) { return neg(x); }

/// factor * x
Variable scale(const Variable& x, double factor);
inline Variable operator*(const Variable& x, double factor) { return scale(x, factor); }
inline Variable operator*(double factor, const Variable& x) { return scale(x, factor); }
Variable operator/(const Variable& x, double divisor);
inline Variable operator/(double a, const Variable& b) { return scale(reciprocal(b), a); }
Variable operator+(const Variable& x, double term);
inline Variable operator+(double a, const Variable& b) { return b + a; }
Variable operator-(const Variable& x, double term);
Variable operator-(double a, const Variable& b);

/// condition (u8) ? a : b
Variable where(const Tensor& condition, const Variable& a, const Variable& b);
/// mask (u8) ? value : x
Variable masked_fill(const Variable& x, const Tensor& mask, double value);
/// x within [low, high], each perhaps infinite. The gradient is 0 at a bound, too, as in PyTorch.
Variable clamp(const Variable& x, double low, double high);
/// x sigmoid(x)
Variable silu(const Variable& x);
/// Returns x itself if p is 0.
Variable dropout(const Variable& x, const DropoutKey& key, const Tensor& positions = {});

// ---- reductions -----------------------------------------------------------------------------

Variable reduce(ReduceOp op, const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
Variable sum(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
Variable mean(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
Variable max(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
Variable min(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
/// log of the sum of exp(x), without overflow
Variable logsumexp(const Variable& x, std::vector<int> axes = {}, bool keepdim = false);
/// The sum of squared deviations from the mean divided by n - correction; std is its root.
Variable var(const Variable& x, std::vector<int> axes = {}, bool keepdim = false,
             double correction = 1);
Variable std(const Variable& x, std::vector<int> axes = {}, bool keepdim = false,
             double correction = 1);
/// Element i is the sum of the elements 0..i of `axis`.
Variable cumsum(const Variable& x, int axis);

// ---- the same elements: all but cast and to share storage -----------------------------------

/// The same elements in another shape; one size may be -1.
Variable view(const Variable& x, const Shape& shape);
/// Rows [begin, end) of the outermost dimension.
Variable slice(const Variable& x, std::int64_t begin, std::int64_t end);
Variable cast(const Variable& x, DType dtype);
/// x itself if it is there already or undefined. Both devices' streams are ordered; the host does
/// not wait, unless one of the devices is a CPU. The gradient is copied back.
Variable to(const Variable& x, Device device);

// ---- moved elements -------------------------------------------------------------------------

/// Joins the inputs along `axis`.
Variable concat(const std::vector<Variable>& inputs, int axis);
/// Joins the inputs along a new dimension before `axis`.
Variable stack(const std::vector<Variable>& inputs, int axis);
/// A copy of [begin, begin + length) of `axis`.
Variable narrow(const Variable& x, int axis, std::int64_t begin, std::int64_t length);
/// Consecutive pieces with these `sizes`, which add up to x.size(axis).
std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes, int axis);
/// x with `before` zeros before it and `after` zeros after it along `axis`.
Variable pad(const Variable& x, int axis, std::int64_t before, std::int64_t after);
/// The result's dimension i is x's dimension axes[i].
Variable permute(const Variable& x, const std::vector<int>& axes);
/// x with two dimensions exchanged.
Variable transpose(const Variable& x, int a = -2, int b = -1);
/// Rows index (n) of `axis`, i32 or i64.
Variable index_select(const Variable& x, int axis, const Tensor& index);
/// out[.., j, ..] = x[.., index[.., j, ..], ..] at `axis`.
Variable gather(const Variable& x, int axis, const Tensor& index);
/// The elements of `axis` in order, as core's argsort() ranks them, and where they were.
struct Sorted {
  Variable values;
  Tensor indices;  // i64
};
Sorted sort(const Variable& x, int axis = -1, bool descending = false);
/// x (.., R, C) with zeros above the diagonal, or below it. `diagonal` moves it to the right.
Variable tril(const Variable& x, std::int64_t diagonal = 0);
Variable triu(const Variable& x, std::int64_t diagonal = 0);
/// x with source[.., j, ..] added at [.., index[.., j, ..], ..] of `axis`, j ascending.
Variable scatter_add(const Variable& x, int axis, const Tensor& index, const Variable& source);

// ---- products -------------------------------------------------------------------------------

Variable matmul(const Variable& a, const Variable& b, MatmulOptions options = {});
/// x (.., in) weight (out, in)' + bias (out); bias may be undefined.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {});
/// linear(x, weight, bias), for a next function that computes the gradient of the bias: the sum of
/// the rows of the result's gradient. If `open_bias` is not null it is set to the bias, and
/// backward leaves that gradient out.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias,
                Variable* open_bias);
/// gelu(linear(x, weight, bias)), in one pass.
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias = {});
/// Several linear layers of one input as one product: x (.., in) times each weight (rows_i, in),
/// plus each bias (rows_i), concatenated: (.., rows_0 + rows_1 + …).
Variable packed_linear(const Variable& x, const std::vector<Variable>& weights,
                       const std::vector<Variable>& biases);
/// x (B, C, H, W), weight (O, C, kh, kw), bias (O) or undefined -> (B, O, oh, ow).
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2dOptions& options = {});
/// x (B, C, H, W) -> (B, C, oh, ow); stride 0 means kernel.
Variable max_pool2d(const Variable& x, std::int64_t kernel, std::int64_t stride = 0);

// ---- rows -----------------------------------------------------------------------------------

Variable softmax(const Variable& x);
Variable log_softmax(const Variable& x);
/// logits (R, C), labels (R) i64 or i32 -> (): the rows' sum divided by `divisor`.
Variable cross_entropy(const Variable& logits, const Tensor& labels, double divisor);
/// Rows of logits that product_cross_entropy() computes at a time. A constant, so that memory
/// limits do not change bits.
inline constexpr std::int64_t kProductRows = 512;
/// cross_entropy(scale a b', labels, divisor) of a (R, H), b (C, H) and labels (R), in the memory
/// of a block of logits.
Variable product_cross_entropy(const Variable& a, const Variable& b, const Tensor& labels,
                               double scale, double divisor);
/// x / max(|x|, eps) along the last dimension.
Variable normalize(const Variable& x, double eps = kNormalizeEps);
/// a, b (.., C) -> (R): the cosine of each pair of rows.
Variable cosine_similarity(const Variable& a, const Variable& b, double eps = kCosineEps);
/// Every row of a with every row of b: a (N, C), b (M, C) -> (N, M). As cos_sim of
/// sentence-transformers, rows are normalised, then multiplied.
Variable cosine_similarity_matrix(const Variable& a, const Variable& b);
/// x (.., C); weight and bias (C).
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps);
/// x weight / sqrt(mean(x^2) + eps) along the last dimension, computed in f32 (f64); weight (C).
Variable rms_norm(const Variable& x, const Variable& weight, double eps);
/// layer_norm(residual + dropout(x)); `positions` (R, 2) i32 as for dropout(). `x_bias` (C), which
/// may be undefined, is in x already (linear's open_bias). Backward computes its gradient.
Variable residual_dropout_layer_norm(const Variable& x, const Variable& residual,
                                     const DropoutKey& key, const Tensor& positions,
                                     const Variable& weight, const Variable& bias, double eps,
                                     const Variable& x_bias = {});

// ---- batches of sequences -------------------------------------------------------------------

/// softmax(q k' / sqrt(D)) v of q (.., L, D), k (.., S, D) and v (.., S, E), for example (B, H, T,
/// D). `mask` (u8, broadcast to (.., L, S)) is 1 where a query attends to a key; undefined: to all.
/// `causal`: to keys 0..i alone from query i. A query that attends to none gets NaN, as in PyTorch.
Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                                      bool causal = false, const Tensor& mask = {});
/// Rotary position embedding (Su et al., 2021) of x (.., T, D), D even. The pair of elements i and
/// i + D/2 at position t is rotated by t base^(-2i/D); Llama has the same pairs.
Variable rotary_embedding(const Variable& x, double base = 10000);

// ---- packed sentences -----------------------------------------------------------------------

/// weight (V, C), ids (T) i32 -> (T, C) in `dtype`. `counted` (T) has the ids of the gradient,
/// where -1 adds nothing; undefined: `ids`.
Variable embedding(const Variable& weight, const Tensor& ids, DType dtype,
                   const Tensor& counted = {});
Variable embedding(const Variable& weight, const Tensor& ids);
/// An encoder's first layer: dropout(layer_norm(word[ids] + position[position_ids] +
/// type[type_ids])) in `dtype`; `type` and its ids may be undefined.
Variable embedding_sum_layer_norm(const Variable& word, const Variable& position,
                                  const Variable& type, const EmbeddingIds& ids,
                                  const Variable& weight, const Variable& bias, double eps,
                                  const DropoutKey& key, const Tensor& positions, DType dtype);
/// qkv (T, 3 heads d), relative_bias (32, heads) or undefined -> (T, heads d). The other options
/// are those of core's attention; the `relative_bias` in them is ignored.
Variable attention(const Variable& qkv, const Variable& relative_bias, const Tensor& cu_seqlens,
                   AttentionOptions options);
/// x (T, C), cu_seqlens (S + 1), lengths (S) or undefined -> (S, C) f32 (f64).
Variable pooling(PoolingMode mode, const Variable& x, const Tensor& cu_seqlens,
                 const Tensor& lengths = {});

}  // namespace ringlet::autograd
