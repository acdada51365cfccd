// The Kernel (gemm_blocks.h) of bf16 tiles. An f32 number is a sum of kPlanes bf16 numbers with 8
// bits each. A product of f32 consists of several products of tiles:
//   kPlanes 1: operands rounded to bf16
//   kPlanes 2: three products; left out are parts up to 3 * 2^-16 of |a b|
// A sum of k products takes 17 + (1 or 3) ceil(k / 32) roundings.
// Numbers below 2^-118 lose their lower plane, which is denormal. An infinity is multiplied by
// zeros of the other operand's lower plane, so its sums are NaN. Three planes (six products) would
// be as exact as f32. They are not implemented: they are no faster than FMA, and slower if two
// threads share a core's tiles (bench/results/cpu.md).
#pragma once

#include "ringlet/core/cpu/gemm_blocks.h"

namespace ringlet::cpu::RINGLET_ISA {

// A tile is 16 lines of 16 pairs of bf16, 1 KiB. A line of A is a row; a line of B is a pair of
// depths for 16 adjacent columns.
inline constexpr int kTileLines = 16;
inline constexpr int kTilePairs = kTileLines * kTileLines;

using Line = lanes_t<std::uint32_t, kTileLines>;

/// The planes of v as bf16 in the low half of each lane: v = planes[0] + planes[1] + ..
template <int kPlanes>
RINGLET_INLINE void split(lanes_t<float, kTileLines> v, Line* planes) {
  for (int p = 0; p < kPlanes; ++p) {
    const Line bits = bits_as<Line>(v);
    const auto finite = (bits & 0x7f800000u) != 0x7f800000u;
    Line half = rounded_to_bf16<kTileLines>(v);
    // A large number does not round to infinity if lower planes hold the rest.
    if (kPlanes > 1) half = (finite & ((half & 0x7fffu) == 0x7f80u)) ? half - 1 : half;
    planes[p] = half;
    const auto rest = bits_as<Line>(v - bits_as<lanes_t<float, kTileLines>>(half << 16));
    v = bits_as<lanes_t<float, kTileLines>>(finite ? rest : Line{});
  }
}

/// One line of pairs adjacent in depth, in memory order: 16 pairs of one row (from.transposed), or
/// one pair of 16 rows. `rows` and `depths` count what exists from (row, depth) on.
template <int kPlanes, class T>
RINGLET_INLINE void read_line(const PackSource<T>& from, std::int64_t row, std::int64_t depth,
                              std::int64_t rows, std::int64_t depths, Line* planes) {
  Line first[kPlanes], second[kPlanes];
  const T* at = from.data + (from.transposed ? row * from.ld + depth : depth * from.ld + row);
  const bool exists = rows > 0 && depths > 0;
  const std::int64_t count = !exists ? 0 : from.transposed ? depths : rows;
  const std::int64_t step = from.transposed ? kTileLines : from.ld;
  const std::int64_t rest = from.transposed ? count - kTileLines : depths > 1 ? count : 0;
  const auto number = [](const T* data, std::int64_t n) __attribute__((always_inline)) {
    return n > 0 ? read_lanes<float, kTileLines>(data, n) : lanes_t<float, kTileLines>{};
  };
  split<kPlanes>(number(at, count), first);
  split<kPlanes>(number(at + step, rest), second);
  for (int p = 0; p < kPlanes; ++p) {
    if (from.transposed) {
      typedef lanes_t<std::uint16_t, kTileLines> Halves;
      const Halves halves[2] = {__builtin_convertvector(first[p], Halves),
                                __builtin_convertvector(second[p], Halves)};
      planes[p] = load_lanes<Line>(halves);
    } else {
      planes[p] = first[p] | second[p] << 16;
    }
  }
}

/// Packs two tiles of each plane per step of depth. The 16 lines of a tile are rows (kRowLines, of
/// A) or pairs of depths (of B).
template <int kPlanes, bool kRowLines, class T>
void pack_tiles(const PackSource<T>& from, std::int64_t extent, std::int64_t depths,
                std::uint32_t* to, std::int64_t stride) {
  constexpr std::int64_t kDepth = 2 * kTileLines;
  for (std::int64_t panel = 0; panel < extent; panel += 2 * kTileLines, to += stride)
    for (std::int64_t depth = 0; depth < depths; depth += kDepth)
      for (int tile = 0; tile < 2; ++tile) {
        Line lines[kPlanes][kTileLines];
        for (int i = 0; i < kTileLines; ++i) {
          Line planes[kPlanes];
          const std::int64_t row = panel + tile * kTileLines + (from.transposed ? i : 0);
          const std::int64_t d = depth + (from.transposed ? 0 : 2 * i);
          read_line<kPlanes>(from, row, d, extent - row, depths - d, planes);
          for (int p = 0; p < kPlanes; ++p) lines[p][i] = planes[p];
        }
        for (int p = 0; p < kPlanes; ++p) {
          if (from.transposed != kRowLines) transpose_lanes<kTileLines>(lines[p]);
          memcpy(to + ((depth / kDepth * kPlanes + p) * 2 + tile) * kTilePairs, lines[p],
                 sizeof(lines[p]));
        }
      }
}

struct PlanePair {
  int a, b;
};
template <int kPlanes>
inline constexpr PlanePair kPlanePairs[] = {{0, 0}};
template <>
inline constexpr PlanePair kPlanePairs<2>[] = {{0, 1}, {1, 0}, {0, 0}};

template <class Tiles, int kOfPlanes>
struct TileKernel {
  using Sum = float;
  using Element = std::uint32_t;
  static constexpr std::int64_t kDepthPerElement = 2;
  static constexpr std::int64_t kDepthMultiple = 2 * kTileLines;
  static constexpr std::int64_t kPlanes = kOfPlanes;
  static constexpr std::int64_t kRows = 2 * kTileLines;
  static constexpr std::int64_t kColumns = 2 * kTileLines;
  // Panels of A and of B take at most 16 KiB each: both stay in the level-1 cache.
  static constexpr std::int64_t kBlockDepth = 8 / kPlanes * kTileLines;
  static constexpr bool kMayReadInPlace = false;

  static void pack_a(const GemmOperand& a, GemmRange rows, GemmRange depth, Element* to,
                     std::int64_t stride) {
    with_source<float, true>(a, !a.trans, rows, depth, [&](const auto& from) {
      pack_tiles<kOfPlanes, true>(from, rows.size, depth.size, to, stride);
    });
  }
  static void pack_b(const GemmOperand& b, GemmRange columns, GemmRange depth, Element* to,
                     std::int64_t stride) {
    with_source<float, true>(b, b.trans, columns, depth, [&](const auto& from) {
      pack_tiles<kOfPlanes, false>(from, columns.size, depth.size, to, stride);
    });
  }

  static void multiply(const GemmRows<Element>& a, const GemmRows<Element>&, const Element* b,
                       std::int64_t columns, float* c, std::int64_t ldc, bool accumulate) {
    constexpr std::int64_t kPlane = 2 * kTilePairs;
    const std::int64_t depths = a.depths;
    Tiles tiles;
    for (std::int64_t i = 0; i < a.rows; i += kRows)
      for (std::int64_t j = 0; j < columns; j += kColumns) {
        const Element* x = a.data + i * depths * kPlanes;
        const Element* y = b + j * depths * kPlanes;
        float* to = c + i * ldc + j;
        if (accumulate) {
          tiles.load(to, ldc);
        } else {
          tiles.zero();
        }
        for (std::int64_t d = 0; d < depths;
             d += kTileLines, x += kPlane * kPlanes, y += kPlane * kPlanes)
#pragma GCC unroll 3
          for (const PlanePair pair : kPlanePairs<kOfPlanes>)
            tiles.multiply(x + pair.a * kPlane, y + pair.b * kPlane);
        tiles.store(to, ldc);
      }
  }
};

}  // namespace ringlet::cpu::RINGLET_ISA
