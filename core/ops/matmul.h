// Matrix products, linear layers and what their gradients need. Sums are kept in f32 for f32 and
// bf16, in f64 for f64. Where one operand is bf16 and the other, a parameter, is f32, the
// parameter counts as rounded to bf16. A bias is added to a sum before that is rounded to what is
// stored. Where this is bf16, CUDA adds the bias rounded to bf16, as bf16 layers of PyTorch and
// Transformer Engine do, and a CPU as it is: they are at most 2^-8 |bias| apart before that.
#pragma once

#include "ringlet/core/kernel.h"
#include "ringlet/core/ops/accumulator.h"
#include "ringlet/core/tensor.h"

namespace ringlet {

/// How exact products of f32 by f32 are, PyTorch's names. highest: f32. high: what is faster and
/// nearly as exact, where kernels have it, f32 elsewhere: with AMX three products of bf16 planes
/// (an infinity becomes NaN), on CUDA TF32, operands rounded to 11 bits, PyTorch's meaning of it.
/// medium: operands rounded to bf16 where that is faster (on CUDA always), sums in f32; f32
/// elsewhere. For the whole process; the default is highest.
enum class MatmulPrecision { highest, high, medium };
void set_matmul_precision(MatmulPrecision precision);
MatmulPrecision matmul_precision();
/// "highest", "high" or "medium"; InputError for others.
MatmulPrecision parse_matmul_precision(std::string_view name);

struct MatmulArgs {
  void* out;             // (batch, m, n) = op(a) op(b) + bias + beta * out
  const void* a;         // (batch, m, k), transposed (batch, k, m)
  const void* b;         // (batch, k, n), transposed (batch, n, k)
  const void* bias;      // (n) f32, or f64 for f64; may be null
  void* pre_activation;  // (batch, m, n) in out's dtype; out is its GELU then; may be null
  /// (m) f32, or f64 for f64 = the sums of a over k, as it is in memory, + a_sums_beta * a_sums:
  /// the gradient of a bias where out is that of its weight. Of one transposed a (k, m), without
  /// bias or pre_activation; may be null.
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
  DType dtype;    // what a and b count as
  DType a_dtype;  // in memory: dtype, or f32 to be rounded to bf16
  DType b_dtype;
  DType out_dtype;
  Storage* keep_b;      // of b, where forms of it may be kept as sidecars; may be null
  Storage* round_b;     // of b, where it is a parameter to be rounded; else null
  Storage* round_bias;  // of the bias, where it may be rounded to out_dtype; else null
};
extern Kernel<MatmulArgs> matmul_kernel;

struct SumRowsArgs {
  void* out;       // (n) f32, or f64 for f64
  const void* in;  // (m, n)
  std::int64_t m;
  std::int64_t n;
  double beta;
  DType dtype;  // of in
};
extern Kernel<SumRowsArgs> sum_rows_kernel;
/// What makes a product's a_sums by itself.
inline SumRowsArgs a_sums_of(const MatmulArgs& args) {
  return {args.a_sums, args.a, args.k, args.m, args.a_sums_beta, args.a_dtype};
}

struct GeluBackwardArgs {
  void* out;                   // (n)
  const void* grad;            // (n)
  const void* pre_activation;  // (n)
  std::int64_t n;
  DType dtype;
};
extern Kernel<GeluBackwardArgs> gelu_backward_kernel;

struct MatmulOptions {
  bool trans_a = false;
  bool trans_b = false;
};

/// How long a weight stays as it is. kept: more products will meet it unchanged, as where nothing
/// learns. From the second product on a CPU then has it packed in a sidecar of its storage, which
/// takes 4 bytes a number in f32, planes of AMX too, and 2 in bf16 (4 where that is computed in
/// f32), its columns made a multiple of a tile's 32 or 48, and goes when the storage is written or
/// let go. None is made where memory is limited (set_memory_limit). On CUDA it is an f32 weight of
/// bf16 products that is kept, rounded, in 2 bytes a number, of changing weights too: a step's
/// forward, input gradient and recomputation share one. So is its bias.
enum class Weight { changing, kept };

/// a (.., m, k) b (.., k, n) -> (.., m, n) in a's dtype. Leading dimensions are equal, or b is one
/// matrix for all of a's. The last two are swapped in memory where an option says so.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});

/// out (.., m, n) = op(a) op(b) + beta * out; beta 0 never reads out. After f32 or bf16 operands
/// out is either of them (a weight gradient is f32), after f64 it is f64.
void matmul_into(Tensor& out, const Tensor& a, const Tensor& b, MatmulOptions options = {},
                 double beta = 0);

/// x (.., in) weight (out, in)' + bias (out) -> (.., out) in x's dtype; bias may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Weight use = Weight::changing);

/// gelu(linear(x, weight, bias)); `pre_activation` is set to linear(x, weight, bias), which the
/// gradient needs.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   Tensor& pre_activation, Weight use = Weight::changing);

/// grad * gelu'(pre_activation), all of one shape and dtype.
Tensor gelu_backward(const Tensor& grad, const Tensor& pre_activation);

/// out (n) = the sum of grad's (.., n) rows + beta * out, the gradient of a bias. out is f32 for
/// f32 and bf16.
void sum_rows_into(Tensor& out, const Tensor& grad, double beta = 0);

/// What a linear layer's backward writes to its parameters, of which either may be unwanted: to
/// weight (out, in) grad' x, to bias (out) the sum of grad's rows, of grad (rows, out) and x
/// (rows, in). weight's dtype is any that matmul_into writes.
void linear_gradients_into(Accumulator weight, Accumulator bias, const Tensor& grad,
                           const Tensor& x);

}  // namespace ringlet
