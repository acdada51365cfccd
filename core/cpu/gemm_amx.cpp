// Products with AMX tiles.
#include "ringlet/core/cpu/gemm_tiles.h"

namespace ringlet::cpu::RINGLET_ISA {

void multiply_bf16(Device device, const GemmProduct<float>& product) {
  multiply_blocked<TileKernel<AmxTiles, 1>>(device, product);
}
void multiply_high(Device device, const GemmProduct<float>& product) {
  multiply_blocked<TileKernel<AmxTiles, 2>>(device, product);
}

}  // namespace ringlet::cpu::RINGLET_ISA
