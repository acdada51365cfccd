// Matrix products, linear layers and the functions for their gradients. Sums are f32 for f32 and
// bf16, f64 for f64. If one operand is bf16 and the other, a parameter, is f32, the parameter is
// rounded to bf16. A bias is added before the sum is rounded to the stored dtype. For bf16 results
// CUDA first rounds the bias to bf16, as bf16 layers of PyTorch and Transformer Engine do. A CPU
// adds it unrounded: the two sums differ by at most 2^-8 |bias|.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/ops/gradient_sink.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

/// Precision of products of f32 by f32, with PyTorch's names. Process-wide; the default is highest.
/// - `highest`: f32.
/// - `high`: faster and nearly as exact if a kernel has it, else f32. With AMX three products of
///   bf16 planes (an infinity becomes NaN). On CUDA TF32: operands rounded to 11 bits, as PyTorch.
/// - `medium`: operands rounded to bf16 if faster (on CUDA always), else f32; sums in f32.
enum class MatmulPrecision { highest, high, medium };
void set_matmul_precision(MatmulPrecision precision);
MatmulPrecision matmul_precision();
/// "highest", "high" or "medium"; InputError for others.
MatmulPrecision parse_matmul_precision(std::string_view name);
std::string_view precision_name(MatmulPrecision precision);

struct MatmulArgs {
  void* out;             // (batch, m, n) = op(a) op(b) + bias + beta * out
  const void* a;         // (batch, m, k), transposed (batch, k, m)
  const void* b;         // (batch, k, n), transposed (batch, n, k)
  const void* bias;      // (n) f32, or f64 for f64; may be null
  void* pre_activation;  // (batch, m, n) in out's dtype; out is its GELU then; may be null
  /// (m) f32, or f64 for f64: the sums over k of a as stored, + a_sums_beta * a_sums. This is the
  /// gradient of a bias if out is that of its weight. Needs one transposed a (k, m), without bias
  /// or pre_activation; may be null.
  void* a_sums;
  std::int64_t batch;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t a_stride;  // elements from one matrix to the next, 0 shares one
  std::int64_t b_stride;
  bool trans_a;
  bool trans_b;
  double beta;  // 0 with a bias or a pre-activation
  double a_sums_beta;
  DType dtype;    // in which a and b are multiplied
  DType a_dtype;  // in memory: dtype, or f32 to be rounded to bf16
  DType b_dtype;
  DType out_dtype;
  Storage* keep_b;      // b's storage if forms of b may be cached as sidecars; else null
  Storage* round_b;     // b's storage if b is a parameter to be rounded; else null
  Storage* round_bias;  // the bias's storage if it may be rounded to out_dtype; else null
};
extern OpKernel<MatmulArgs> matmul_kernel;

struct SumRowsArgs {
  void* out;       // (n) f32, or f64 for f64
  const void* in;  // (m, n)
  std::int64_t m;
  std::int64_t n;
  double beta;
  DType dtype;  // of in
};
extern OpKernel<SumRowsArgs> sum_rows_kernel;
/// The separate computation of a product's a_sums.
inline SumRowsArgs a_sums_of(const MatmulArgs& args) {
  return {args.a_sums, args.a, args.k, args.m, args.a_sums_beta, args.a_dtype};
}

struct GeluBackwardArgs {
  void* out;                   // (n), rows of `columns`
  const void* grad;            // (n)
  const void* pre_activation;  // (n)
  /// (columns) f32, or f64 for f64: the sums of out's rows as stored + sums_beta * sums, the
  /// gradient of a bias; may be null.
  void* sums;
  double sums_beta;
  std::int64_t n;
  std::int64_t columns;
  DType dtype;
};
extern OpKernel<GeluBackwardArgs> gelu_backward_kernel;
/// The separate computation of gelu_backward's sums.
inline SumRowsArgs sums_of(const GeluBackwardArgs& args) {
  return {args.sums, args.out, args.n / args.columns, args.columns, args.sums_beta, args.dtype};
}

struct MatmulOptions {
  bool trans_a = false;
  bool trans_b = false;
};

/// Whether a weight changes between products. `kept`: more products will use it unchanged, as in
/// inference. A CPU packs it at the second product and keeps it in a sidecar of its storage. That
/// takes 4 bytes per number for f32 (also as AMX planes) and 2 for bf16 (4 if computed in f32).
/// Columns are padded to a multiple of a tile's 32 or 48. The sidecar is released when the storage
/// is written or freed. None is made if memory is limited (set_memory_limit). On CUDA an f32 weight
/// of bf16 products is kept rounded, in 2 bytes per number, even if it is `changing`. A step's
/// forward, input gradient and recomputation share it. The bias is kept the same way.
enum class WeightUse { changing, kept };

/// a (.., m, k) b (.., k, n) -> (.., m, n) in a's dtype. Leading dimensions are equal, or b is one
/// matrix for all of a's. With trans_a or trans_b the last two are swapped in memory.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});

/// out (.., m, n) = op(a) op(b) + beta * out; beta 0 never reads out. For f32 or bf16 operands out
/// is either of them (a weight gradient is f32), for f64 it is f64.
void matmul_into(Tensor& out, const Tensor& a, const Tensor& b, MatmulOptions options = {},
                 double beta = 0);

/// x (.., in) weight (out, in)' + bias (out) -> (.., out) in x's dtype; bias may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              WeightUse use = WeightUse::changing);

/// gelu(linear(x, weight, bias)). Sets `pre_activation` to linear(x, weight, bias), for the
/// gradient.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   Tensor& pre_activation, WeightUse use = WeightUse::changing);

/// grad * gelu'(pre_activation), all of one shape and dtype. `row_sums` (columns) gets the sum of
/// the result's rows, as sum_rows_into.
Tensor gelu_backward(const Tensor& grad, const Tensor& pre_activation, GradientSink row_sums = {});

/// out (n) = the sum of grad's (.., n) rows + beta * out, the gradient of a bias. out is f32 for
/// f32 and bf16.
void sum_rows_into(Tensor& out, const Tensor& grad, double beta = 0);

/// Gradients of a linear layer's parameters, from grad (rows, out) and x (rows, in). Writes grad' x
/// to weight (out, in) and the sum of grad's rows to bias (out); either may be undefined. weight
/// has any dtype that matmul_into writes.
void linear_gradients_into(GradientSink weight, GradientSink bias, const Tensor& grad,
                           const Tensor& x);

}  // namespace ringlet
