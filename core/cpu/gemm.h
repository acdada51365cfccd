// The single entry point for all matrix products of CPU kernels, row-major.
// C (m, n) = op(A) (m, k) op(B) (k, n) + beta C, where op may transpose.
// Work is divided into blocks of fixed size. The order in which an element is summed over k does
// not depend on m, on its row or on the number of threads.
#pragma once

#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu::RINGLET_ISA {

/// Both operands f32 or bf16 (the two may differ), or both f64.
void gemm(Device device, const GemmProduct<float>& product);
void gemm(Device device, const GemmProduct<double>& product);

/// Writes C as f32, bf16 (for f32 or bf16 operands) or f64; with beta 0, C is never read.
void gemm(Device device, std::int64_t m, std::int64_t n, std::int64_t k, const GemmOperand& a,
          const GemmOperand& b, double beta, void* c, DType c_dtype, std::int64_t ldc);

}  // namespace ringlet::cpu::RINGLET_ISA
