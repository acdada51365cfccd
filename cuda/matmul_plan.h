// A row-major product expressed for a column-major library, and the remaining steps. Plain numbers:
// no device is needed to make or check a plan.
#pragma once

#include <compare>
#include <cstdint>

#include "ringlet/core/base/host_device.h"
#include "ringlet/core/ops/matmul.h"

namespace ringlet::cuda {

/// A batch of matrices in memory, column-major.
struct ColumnMajor {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t ld;      // elements from one column to the next
  std::int64_t stride;  // elements from one matrix to the next, 0 shares one
  bool transposed;      // before the multiplication

  auto operator<=>(const ColumnMajor&) const = default;
};

/// out' (n, m) = op(left) (n, k) op(right) (k, m) + beta out', column-major, is out (m, n) in
/// row-major order. The row-major b is the left operand and a the right one, each read as its
/// transpose.
struct MatmulPlan {
  ColumnMajor left;
  ColumnMajor right;
  ColumnMajor out;
  std::int64_t batch;
  std::int64_t k;
  double beta;    // of the library's product
  DType dtype;    // of both operands, after cast_a and cast_b
  DType product;  // of the library's output
  bool cast_a;    // f32 that counts as rounded to bf16
  bool cast_b;
  bool adds_bias;   // by the library, along out's rows; in the dtype of the product
  bool makes_sums;  // of a, by the library, in f32 (see below)
  bool adds_sums;   // afterwards the library's sums are added to a_sums, as the library overwrites
  bool scratch;     // the product goes to separate memory, which finish_product reads
  bool finish;      // finish_product runs

  bool has_epilogue() const { return adds_bias || makes_sums; }
  /// Whether all rows begin at multiples of 8 elements: of 16 bytes, in bf16.
  bool is_aligned() const { return (left.ld | right.ld | out.ld) % 8 == 0; }

  auto operator<=>(const MatmulPlan&) const = default;
};

/// The device addresses of a product's matrices.
struct ProductPointers {
  const void* left;
  const void* right;
  const void* bias;  // if plan.adds_bias, in plan.product; else null
  void* sums;        // if plan.makes_sums, f32, overwritten; else null
  void* out;
};

/// `epilogues`: the library does everything it can in the product itself. It adds the bias to f32
/// sums before they are rounded to the output dtype, and takes the bias in that dtype. Without
/// that, or if operands are f32 and the result bf16, the product is f32 and is rounded afterwards.
/// A bf16 product plus the bias would be rounded twice, as cuBLASLt 13.1 does on Hopper where rows
/// of bf16 are not aligned.
///
/// a is the library's operand B, so a's sums over k are BGRADB: one for each column of its out'
/// (n, m). (BGRADA would be b's, one for each row.) They have the dtype of out', which must be f32,
/// or they would be rounded. And a must be bf16 in memory: with f32 operands that the product
/// rounds (cast, or TF32), they might be sums of rounded numbers.
inline MatmulPlan plan_matmul(const MatmulArgs& args, bool epilogues) {
  MatmulPlan plan{};
  plan.left = args.trans_b ? ColumnMajor{args.k, args.n, args.k, args.b_stride, true}
                           : ColumnMajor{args.n, args.k, args.n, args.b_stride, false};
  plan.right = args.trans_a ? ColumnMajor{args.m, args.k, args.m, args.a_stride, true}
                            : ColumnMajor{args.k, args.m, args.k, args.a_stride, false};
  plan.out = {args.n, args.m, args.n, args.m * args.n, false};
  plan.batch = args.batch;
  plan.k = args.k;
  plan.dtype = args.dtype;
  plan.cast_a = args.a_dtype != args.dtype;
  plan.cast_b = args.b_dtype != args.dtype;
  const bool narrow = args.out_dtype == DType::bf16;
  const bool wide_product = narrow && args.dtype == DType::f32;
  plan.adds_bias = args.bias && epilogues && !wide_product && args.dtype != DType::f64 &&
                   (!narrow || plan.is_aligned());
  plan.makes_sums = args.a_sums && epilogues && args.dtype == DType::bf16 && !plan.cast_a &&
                    args.out_dtype == DType::f32;
  plan.adds_sums = plan.makes_sums && args.a_sums_beta != 0;
  plan.scratch = wide_product || (narrow && args.bias && !plan.adds_bias);
  plan.product = plan.scratch ? DType::f32 : args.out_dtype;
  plan.finish = plan.scratch || args.pre_activation || (args.bias && !plan.adds_bias);
  plan.beta = plan.scratch ? 0 : args.beta;
  return plan;
}

}  // namespace ringlet::cuda
