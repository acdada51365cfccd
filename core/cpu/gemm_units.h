// Products with instructions beyond those of a kernel set. Each is a unit with separate compiler
// flags; register_kernels() enters those in use.
#pragma once

#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu {

using GemmUnit = void (*)(Device device, const GemmProduct<float>& product);

/// A null entry has no unit; FMA is used instead.
struct GemmUnits {
  GemmUnit bf16 = nullptr;  // bf16 operands; with MatmulPrecision::medium also f32, rounded
  GemmUnit high = nullptr;  // f32 operands with MatmulPrecision::high
};
extern GemmUnits gemm_units;

namespace avx512_bf16 {
void multiply_bf16(Device device, const GemmProduct<float>& product);
}
namespace amx {
void multiply_bf16(Device device, const GemmProduct<float>& product);
void multiply_high(Device device, const GemmProduct<float>& product);
}  // namespace amx

}  // namespace ringlet::cpu
