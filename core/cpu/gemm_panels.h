// The Kernel (gemm_blocks.h) for tiles in registers.
#pragma once

#include "ringlet/core/cpu/gemm_blocks.h"
#include "ringlet/core/cpu/lanes.h"

namespace ringlet::cpu::RINGLET_ISA {

// The innermost product: a tile of C stays in registers while both packed operands are read. Every
// element is one chain of multiply-adds over the depth in order, for any tile size.

// A tile has kTileHeight x 3 registers of sums and leaves room for a row of B and a factor of A.
// There are 32 registers of 64 bytes, or 16 smaller ones.
inline constexpr int kTileHeight = kRegisterBytes == 64 ? 8 : 4;
inline constexpr int kTileRegisters = 3;

template <class T>
using Register = lanes_t<T, kRegisterBytes / sizeof(T)>;

/// f32 and f64: packed elements are numbers, one depth each.
template <class S>
struct MultiplyAdd {
  using Sum = S;
  using Element = S;  // of a packed operand
  static constexpr int kDepthPerElement = 1;
  RINGLET_INLINE Register<Sum> run(Register<Element> factor, Register<Element> row,
                                   Register<Sum> sum) {
    return fma(factor, row, sum);
  }
};

// Reads an element of A, which may be two bf16 in memory.
template <class E>
RINGLET_INLINE E element_at(const E* from) {
  E element;
  memcpy(&element, from, sizeof(element));
  return element;
}

template <class Arithmetic>
inline constexpr int kTileColumns = kTileRegisters* kRegisterBytes /
                                    static_cast<int>(sizeof(typename Arithmetic::Sum));

/// The first element of kTileHeight rows of A. With kDepthsTogether a row's depths are contiguous
/// and rows are `stride` elements apart; else the rows of a depth are contiguous and depths are
/// apart.
template <class Element>
struct TileRows {
  const Element* data;
  std::int64_t stride;
};

// c (kRows, kRegisters registers) = the product of a (kRows, depths) and b (depths, kTileColumns),
// or c + the product. Sanitized builds do not check indices into the local arrays (constant
// bounds): this would take most of their time. Loads and stores are checked.
template <class Arithmetic, bool kDepthsTogether, int kRows, int kRegisters>
__attribute__((no_sanitize("undefined"))) void multiply_tile(
    TileRows<typename Arithmetic::Element> a, const typename Arithmetic::Element* b,
    std::int64_t depths, typename Arithmetic::Sum* c, std::int64_t ldc, bool accumulate) {
  using S = typename Arithmetic::Sum;
  using E = typename Arithmetic::Element;
  constexpr int kLanes = kRegisterBytes / static_cast<int>(sizeof(S));
  Register<S> total[kRows][kRegisters] = {};
  for (std::int64_t d = 0; d < depths; ++d) {
    Register<E> row[kRegisters];
#pragma GCC unroll 8
    for (int v = 0; v < kRegisters; ++v) row[v] = load_lanes<Register<E>>(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const E* at = kDepthsTogether ? a.data + r * a.stride : a.data + r;
      const Register<E> factor = element_at(at) - Register<E>{};
#pragma GCC unroll 8
      for (int v = 0; v < kRegisters; ++v)
        total[r][v] = Arithmetic::run(factor, row[v], total[r][v]);
    }
    a.data += kDepthsTogether ? 1 : a.stride;
    b += kTileColumns<Arithmetic>;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kRegisters; ++v) {
      S* to = c + r * ldc + v * kLanes;
      const Register<S> sum = accumulate ? load_lanes<Register<S>>(to) + total[r][v] : total[r][v];
      store_lanes(to, sum);
    }
}

template <class Arithmetic>
using Tile = void (*)(TileRows<typename Arithmetic::Element>, const typename Arithmetic::Element*,
                      std::int64_t, typename Arithmetic::Sum*, std::int64_t, bool);

template <class Arithmetic, bool kDepthsTogether, int... kIndex>
RINGLET_INLINE Tile<Arithmetic> choose_tile(int index, std::integer_sequence<int, kIndex...>) {
  static constexpr Tile<Arithmetic> kTiles[] = {
      multiply_tile<Arithmetic, kDepthsTogether, kIndex / kTileRegisters + 1,
                    kIndex % kTileRegisters + 1>...};
  return kTiles[index];
}

/// The tile for `rows` <= kTileHeight rows and `columns` <= kTileColumns columns.
template <class Arithmetic>
RINGLET_INLINE Tile<Arithmetic> tile_of(bool depths_together, std::int64_t rows,
                                        std::int64_t columns) {
  constexpr int kLanes = kRegisterBytes / static_cast<int>(sizeof(typename Arithmetic::Sum));
  constexpr std::make_integer_sequence<int, kTileHeight * kTileRegisters> kAll;
  const auto registers = static_cast<int>((columns + kLanes - 1) / kLanes);
  const int index = (static_cast<int>(rows) - 1) * kTileRegisters + registers - 1;
  return depths_together ? choose_tile<Arithmetic, true>(index, kAll)
                         : choose_tile<Arithmetic, false>(index, kAll);
}

template <class Arithmetic, class Packing>
struct PanelKernel {
  using Sum = typename Arithmetic::Sum;
  using Element = typename Arithmetic::Element;
  static constexpr std::int64_t kDepthPerElement = Packing::kDepthPerElement;
  static constexpr std::int64_t kDepthMultiple = Packing::kDepthMultiple;
  // With this depth a panel of 48 columns of B takes 36 KiB, a block of B 288 KiB and a block of A
  // 96 KiB. Summing in short parts also keeps the error of long sums small.
  static constexpr std::int64_t kBlockDepth = 192;
  static constexpr std::int64_t kPlanes = 1;
  static constexpr std::int64_t kRows = kTileHeight;
  static constexpr std::int64_t kColumns = kTileColumns<Arithmetic>;
  static constexpr bool kMayReadInPlace = true;

  // A tile reads one factor of A at a time, from any address. If the rows of a depth are
  // contiguous, every depth is on a different page: this pays only if A is read once.
  static bool in_place(const GemmOperand& a, std::int64_t k, std::int64_t n) {
    return !a.written_to && Packing::in_elements(a, k) && (!a.trans || n <= kBlockColumns);
  }
  static GemmRows<Element> rows_in_place(const GemmOperand& a, GemmRange rows, GemmRange depth) {
    const auto* data = static_cast<const Element*>(a.data);
    const std::int64_t ld = a.ld / kDepthPerElement;
    if (a.trans)
      return {data + depth.begin * ld + rows.begin, ld, kRows, false, rows.size, depth.size};
    return {data + rows.begin * ld + depth.begin, ld, kRows * ld, true, rows.size, depth.size};
  }

  static void pack_a(const GemmOperand& a, GemmRange rows, GemmRange depth, Element* to,
                     std::int64_t stride) {
    with_source<Sum, Packing::kRounds>(a, !a.trans, rows, depth, [&](const auto& from) {
      Packing::template pack<kRows>(from, rows.size, depth.size, to, stride);
    });
  }
  static void pack_b(const GemmOperand& b, GemmRange columns, GemmRange depth, Element* to,
                     std::int64_t stride) {
    with_source<Sum, Packing::kRounds>(b, b.trans, columns, depth, [&](const auto& from) {
      Packing::template pack<kColumns>(from, columns.size, depth.size, to, stride);
    });
  }

  // A panel of B stays in the level-1 cache while all panels of A are multiplied with it. Each tile
  // prefetches a slice of the next panel of B and of the next block of A.
  static void multiply(const GemmRows<Element>& a, const GemmRows<Element>& next_a,
                       const Element* b, std::int64_t columns, Sum* c, std::int64_t ldc,
                       bool accumulate) {
    const std::int64_t depths = a.depths;
    const std::int64_t panels_a = blocks_of(a.rows, kRows), panels_b = blocks_of(columns, kColumns);
    const std::int64_t slice_b = kColumns * depths / panels_a;
    Fetch<kRows, Element> fetch_a(next_a, panels_a * panels_b);
    for (std::int64_t j = 0; j < panels_b; ++j, b += kColumns * depths) {
      const std::int64_t width = min_of(kColumns, columns - j * kColumns);
      for (std::int64_t i = 0; i < panels_a; ++i) {
        fetch(b + kColumns * depths + i * slice_b, slice_b);
        fetch_a.next();
        const std::int64_t height = min_of(kRows, a.rows - i * kRows);
        tile_of<Arithmetic>(a.depths_together, height, width)(
            {a.data + i * a.panel, a.stride}, b, depths, c + i * kRows * ldc + j * kColumns, ldc,
            accumulate);
      }
    }
  }

 private:
  static void fetch(const Element* from, std::int64_t count) {
    constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(Element));
    for (std::int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i, 0, 2);
  }
};

}  // namespace ringlet::cpu::RINGLET_ISA
