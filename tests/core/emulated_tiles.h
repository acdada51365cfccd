// The tiles of core/cpu/gemm_amx.cpp in plain code, with the same bits. RINGLET_ISA names the
// namespace.
#pragma once

#include <math.h>
#include <string.h>

#include "ringlet/core/cpu/gemm_tiles.h"

namespace ringlet::cpu::RINGLET_ISA {

/// The manual's definition of TDPBF16PS. The products of the pairs' earlier halves and those of the
/// later halves are summed separately, from zero and in order. The two sums are added, then added
/// to the total. Every step rounds to nearest even, reads denormals as zero and writes zero for
/// them.
class EmulatedTiles {
 public:
  void zero() { memset(sums_, 0, sizeof(sums_)); }
  void load(const float* c, std::int64_t ldc) {
    for (int i = 0; i < 2 * kTileLines; ++i) memcpy(sums_[i], c + i * ldc, sizeof(sums_[i]));
  }
  void store(float* c, std::int64_t ldc) const {
    for (int i = 0; i < 2 * kTileLines; ++i) memcpy(c + i * ldc, sums_[i], sizeof(sums_[i]));
  }
  void multiply(const std::uint32_t* a, const std::uint32_t* b) {
    for (int row = 0; row < 2 * kTileLines; ++row)
      for (int column = 0; column < 2 * kTileLines; ++column) {
        const std::uint32_t* x = a + row * kTileLines;
        const std::uint32_t* y = b + column / kTileLines * kTilePairs + column % kTileLines;
        float earlier = 0, later = 0;
        for (int pair = 0; pair < kTileLines; ++pair) {
          const std::uint32_t p = x[pair], q = y[pair * kTileLines];
          earlier = flushed(fmaf(number(p << 16), number(q << 16), earlier));
          later = flushed(fmaf(number(p & 0xffff0000u), number(q & 0xffff0000u), later));
        }
        float& sum = sums_[row][column];
        sum = flushed(flushed(sum) + flushed(earlier + later));
      }
  }

 private:
  static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
  static float number(std::uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof(x));
    return flushed(x);
  }

  float sums_[2 * kTileLines][2 * kTileLines];
};

}  // namespace ringlet::cpu::RINGLET_ISA
