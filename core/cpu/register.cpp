#include "ringlet/core/cpu/register.h"

#include "core/isa_settings.h"
#include "ringlet/core/cpu/gemm_operand.h"
#include "ringlet/core/cpu/isa.h"

namespace ringlet::cpu {

GemmUnits gemm_units;

void register_kernels() {
  switch (isa()) {
    case Isa::portable:
      return portable::register_all();
#if defined(RINGLET_HAS_AVX2)
    case Isa::avx2:
      return avx2::register_all();
#endif
#if defined(RINGLET_HAS_AVX512)
    case Isa::avx512_bf16:
      gemm_units.bf16 = avx512_bf16::multiply_bf16;
      return avx512::register_all();
    case Isa::amx:
      gemm_units = {amx::multiply_bf16, amx::multiply_high};
      return avx512::register_all();
    case Isa::avx512:
      return avx512::register_all();
#endif
    default:
      return;
  }
}

}  // namespace ringlet::cpu
