// The single entry point for all matrix products of CPU kernels, row-major.
// C (m, n) = op(A) (m, k) op(B) (k, n) + beta C, where op may transpose.
// Work is divided into blocks of fixed size. The order in which an element is summed over k does
// not depend on m, on its row or on the number of threads.
#pragma once

#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu {

/// A finished block of op(A) op(B), still in cache: rows [row, row + rows) and columns
/// [column, column + columns) of C. T is float or double.
template <class T>
struct GemmBlock {
  const T* data;    // (rows, columns)
  std::int64_t ld;  // elements between rows of data
  std::int64_t row, column, rows, columns;
};

/// The function that receives the blocks; called once for each, from any thread of the device.
template <class T>
struct GemmEpilogue {
  void (*run)(const void* context, const GemmBlock<T>& block);
  const void* context;
};

/// op(A) (m, k) op(B) (k, n), in T.
template <class T>
struct GemmProduct {
  std::int64_t m, n, k;
  GemmOperand a, b;
  GemmEpilogue<T> epilogue;
};

}  // namespace ringlet::cpu

namespace ringlet::cpu::RINGLET_ISA {

/// Both operands f32 or bf16 (the two may differ), or both f64.
void gemm(Device device, const GemmProduct<float>& product);
void gemm(Device device, const GemmProduct<double>& product);

/// Writes C as f32, bf16 (for f32 or bf16 operands) or f64; with beta 0, C is never read.
void gemm(Device device, std::int64_t m, std::int64_t n, std::int64_t k, const GemmOperand& a,
          const GemmOperand& b, double beta, void* c, DType c_dtype, std::int64_t ldc);

}  // namespace ringlet::cpu::RINGLET_ISA
