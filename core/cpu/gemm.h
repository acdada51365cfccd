// The one seam that all matrix products of CPU kernels go through: row-major
// C (m, n) = alpha op(A) (m, k) op(B) (k, n) + beta C, where op may transpose.
// Work is cut into blocks of fixed size and every element is summed over k in one order that does
// not depend on m, on its row or on the number of threads.
#pragma once

#include "ringlet/core/device.h"
#include "ringlet/core/dtype.h"

namespace ringlet::cpu::RINGLET_ISA {

/// op(X): rows of `ld` elements in memory, transposed when `trans`.
struct GemmOperand {
  const void* data;
  DType dtype;  // f32, f64 or bf16; bf16 computes in f32
  std::int64_t ld;
  bool trans;
};

/// A finished block of alpha op(A) op(B), still in cache: rows [row, row + rows) and columns
/// [column, column + columns) of C. T is float or double.
template <class T>
struct GemmBlock {
  const T* data;    // (rows, columns)
  std::int64_t ld;  // elements between rows of data
  std::int64_t row, column, rows, columns;
};

/// What to do with a block; called once for each, from any thread of the device.
template <class T>
struct GemmEpilogue {
  void (*run)(const void* context, const GemmBlock<T>& block);
  const void* context;
};

/// Both operands f32 or bf16 (the two may differ), or both f64.
void gemm(Device device, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const GemmOperand& a, const GemmOperand& b, const GemmEpilogue<float>& epilogue);
void gemm(Device device, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
          const GemmOperand& a, const GemmOperand& b, const GemmEpilogue<double>& epilogue);

/// Into C of f32, bf16 (after f32 or bf16 operands) or f64; beta 0 never reads C.
void gemm(Device device, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
          const GemmOperand& a, const GemmOperand& b, double beta, void* c, DType c_dtype,
          std::int64_t ldc);

}  // namespace ringlet::cpu::RINGLET_ISA
