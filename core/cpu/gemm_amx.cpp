// Products with AMX tiles.
#include <immintrin.h>

#include "ringlet/core/cpu/gemm_tiles.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

/// A square of 32 x 32 sums in four tiles, and products of bf16 tiles that are added to it. An
/// operand of `multiply` is two contiguous tiles. Tests have plain code with the same bits. The
/// thread's tiles are owned from construction to destruction.
class AmxTiles {
 public:
  AmxTiles() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes_per_line[16] = {};
      std::uint8_t lines[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) {
      config.bytes_per_line[i] = 64;
      config.lines[i] = kTileLines;
    }
    // The intrinsic does not declare that all of config is read.
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  void zero() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  void load(const float* c, std::int64_t ldc) {
    const std::int64_t stride = ldc * 4;
    asm volatile("" ::: "memory");
    _tile_loadd(0, c, stride);
    _tile_loadd(1, c + kTileLines, stride);
    _tile_loadd(2, c + kTileLines * ldc, stride);
    _tile_loadd(3, c + kTileLines * ldc + kTileLines, stride);
  }
  void store(float* c, std::int64_t ldc) const {
    const std::int64_t stride = ldc * 4;
    _tile_stored(0, c, stride);
    _tile_stored(1, c + kTileLines, stride);
    _tile_stored(2, c + kTileLines * ldc, stride);
    _tile_stored(3, c + kTileLines * ldc + kTileLines, stride);
  }
  void multiply(const std::uint32_t* a, const std::uint32_t* b) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + kTilePairs, 64);
    _tile_loadd(5, a + kTilePairs, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
};

}  // namespace

void multiply_bf16(Device device, const GemmProduct<float>& product) {
  multiply_blocked<TileKernel<AmxTiles, 1>>(device, product);
}
void multiply_high(Device device, const GemmProduct<float>& product) {
  multiply_blocked<TileKernel<AmxTiles, 2>>(device, product);
}

}  // namespace ringlet::cpu::RINGLET_ISA
