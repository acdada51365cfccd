// Products with AMX tiles.
#include "ringlet/core/cpu/gemm_tiles.h"
#include "ringlet/core/cpu/gemm_units.h"

namespace ringlet::cpu::RINGLET_ISA {

#define RINGLET_DEFINE_UNIT(name, planes)                                                      \
  void name(Device device, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,        \
            const GemmOperand& a, const GemmOperand& b, const GemmEpilogue<float>& epilogue) { \
    multiply_blocked<TileKernel<AmxTiles, planes>>(device, m, n, k, alpha, a, b, epilogue);    \
  }
RINGLET_DEFINE_UNIT(multiply_bf16, 1)
RINGLET_DEFINE_UNIT(multiply_high, 2)
#undef RINGLET_DEFINE_UNIT

}  // namespace ringlet::cpu::RINGLET_ISA
