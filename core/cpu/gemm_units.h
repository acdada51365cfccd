// Products that need more of a processor than an instruction set's kernels do. Each is a unit with
// flags of its own; register_kernels() enters those in use.
#pragma once

#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu {

using GemmUnit = void (*)(Device device, std::int64_t m, std::int64_t n, std::int64_t k,
                          float alpha, const GemmOperand& a, const GemmOperand& b,
                          const GemmEpilogue<float>& epilogue);

/// Where one is null there is none, and FMA does.
struct GemmUnits {
  GemmUnit bf16 = nullptr;  // of bf16, and MatmulPrecision::medium of f32, which it rounds
  GemmUnit high = nullptr;  // of f32
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
