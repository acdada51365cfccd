// The one seam that all matrix products of CPU kernels go through: row-major
// C (m, n) = alpha op(A) (m, k) op(B) (k, n) + beta C, where op may transpose.
// Work is cut into blocks of fixed size and every element is summed over k in one order that does
// not depend on m, on its row or on the number of threads.
#pragma once

#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu::RINGLET_ISA {

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
