// The Kernel (gemm_blocks.h) for tiles in registers.
#pragma once

#include "ringlet/core/cpu/gemm_blocks.h"
#include "ringlet/core/cpu/gemm_tile.h"

namespace ringlet::cpu::RINGLET_ISA {

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
