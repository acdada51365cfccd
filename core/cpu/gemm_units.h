// Products with instructions beyond those of a kernel set. Each is a unit with separate compiler
// flags; register_kernels() enters those in use.
#pragma once

#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu {

using GemmUnit = void (*)(Device device, std::int64_t m, std::int64_t n, std::int64_t k,
                          float alpha, const GemmOperand& a, const GemmOperand& b,
                          const GemmEpilogue<float>& epilogue);

/// A null entry has no unit; FMA is used instead.
struct GemmUnits {
  GemmUnit bf16 = nullptr;  // bf16 operands; with MatmulPrecision::medium also f32, rounded
  GemmUnit high = nullptr;  // f32 operands with MatmulPrecision::high
};
extern GemmUnits gemm_units;

#define RINGLET_DECLARE_UNIT(name)                                                      \
  void name(Device device, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, \
            const GemmOperand& a, const GemmOperand& b, const GemmEpilogue<float>& epilogue);

namespace avx512_bf16 {
RINGLET_DECLARE_UNIT(multiply_bf16)
}
namespace amx {
RINGLET_DECLARE_UNIT(multiply_bf16)
RINGLET_DECLARE_UNIT(multiply_high)
}  // namespace amx
#undef RINGLET_DECLARE_UNIT

}  // namespace ringlet::cpu
