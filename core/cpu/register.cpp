#include "ringlet/core/cpu/register.h"

#include "ringlet/core/cpu/gemm_units.h"
#include "ringlet/core/cpu/isa.h"

#define RINGLET_CALL_PORTABLE(family) portable::register_##family();
#define RINGLET_CALL_AVX2(family) avx2::register_##family();
#define RINGLET_CALL_AVX512(family) avx512::register_##family();

namespace ringlet::cpu {

GemmUnits gemm_units;

namespace {

void choose_units() {
#if defined(RINGLET_HAS_AVX512)
  if (isa() == Isa::avx512_bf16) gemm_units.bf16 = avx512_bf16::multiply_bf16;
  if (isa() == Isa::amx) gemm_units = {amx::multiply_bf16, amx::multiply_high};
#endif
}

}  // namespace

void register_kernels() {
  choose_units();
  switch (isa()) {
    case Isa::portable:
      RINGLET_CPU_FAMILIES(RINGLET_CALL_PORTABLE) break;
#if defined(RINGLET_HAS_AVX2)
    case Isa::avx2:
      RINGLET_CPU_FAMILIES(RINGLET_CALL_AVX2) break;
#endif
#if defined(RINGLET_HAS_AVX512)
    case Isa::avx512:
    case Isa::avx512_bf16:
    case Isa::amx:
      RINGLET_CPU_FAMILIES(RINGLET_CALL_AVX512) break;
#endif
    default:
      break;
  }
}

}  // namespace ringlet::cpu
