// Products of bf16 with VDPBF16PS: two multiply-adds in place of one in f32. An element is one
// chain over the pairs in order. Each operation rounds to nearest even, denormals are read and
// written as zero.
#include <immintrin.h>

#include "ringlet/core/cpu/gemm_panels.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

struct DotProduct {
  using Sum = float;
  using Element = std::uint32_t;
  RINGLET_INLINE Register<float> run(Register<Element> factor, Register<Element> row,
                                     Register<float> sum) {
    return bits_as<Register<float>>(
        _mm512_dpbf16_ps(bits_as<__m512>(sum), bits_as<__m512bh>(factor), bits_as<__m512bh>(row)));
  }
};

}  // namespace

void multiply_bf16(Device device, const GemmProduct<float>& product) {
  multiply_blocked<PanelKernel<DotProduct, PairPacking>>(device, product);
}

}  // namespace ringlet::cpu::RINGLET_ISA
