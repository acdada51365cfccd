// The loops around a tile. Operands that a tile cannot read in place are packed once per product,
// by all threads, unless a packed form is cached. A block of C stays in the level-2 cache until it
// is complete.
//
// A Kernel defines how operands are packed and blocks are multiplied:
//   Sum, Element                       types of C and of packed operands
//   kDepthPerElement, kDepthMultiple   numbers of k per element; k is padded to a multiple of this
//   kBlockDepth                        elements whose products are summed before the addition to C
//   kPlanes                            elements at a position of a packed operand
//   kRows, kColumns                    size of a tile, and so of the panels of packed operands
//   pack_a, pack_b                     packs a range of rows or columns over a range of k
//   multiply                           (rows, columns) of C from rows of A and packed panels of B;
//                                      prefetches the next rows
//   kMayReadInPlace                    true: in_place selects the A's that are not packed, and
//                                      rows_in_place gives the position of their rows
// Depths count elements; the stride that packing gets is the distance between panels.
#pragma once

#include "ringlet/core/cpu/gemm_product.h"
#include "ringlet/core/cpu/kept_operand.h"
#include "ringlet/core/cpu/loops.h"

namespace ringlet::cpu::RINGLET_ISA {

// Products of at most this many multiply-adds run on the calling thread: threads would cost more.
inline constexpr std::int64_t kInLine = 1 << 18;

/// Rows of a block, chosen so that all threads get the same number of blocks: parallel_for cuts
/// work into four pieces per thread.
constexpr std::int64_t rows_of_block(std::int64_t m, std::int64_t column_blocks,
                                     std::int64_t threads, std::int64_t multiple) {
  std::int64_t row_blocks = blocks_of(m, kBlockRows);
  const std::int64_t blocks = row_blocks * column_blocks;
  const std::int64_t shares = blocks > 4 * threads ? 4 * threads : blocks > 1 ? threads : 1;
  while (row_blocks * column_blocks % shares != 0) ++row_blocks;
  return padded_to(blocks_of(m, row_blocks), multiple);
}

template <class Kernel>
struct PackingOfB {
  const GemmOperand& b;
  std::int64_t k;
  PackedLayout<Kernel, Kernel::kColumns> columns;

  static void run(const void* context, void* to) {
    const auto& self = *static_cast<const PackingOfB*>(context);
    for (std::int64_t i = 0; i < self.columns.pieces(); ++i)
      self.columns.pack(Kernel::pack_b, self.b, self.k, i,
                        static_cast<typename Kernel::Element*>(to));
  }
};

template <class Kernel>
void multiply_blocked(Device device, const GemmProduct<typename Kernel::Sum>& product) {
  using Element = typename Kernel::Element;
  const std::int64_t m = product.m, n = product.n, k = product.k;
  if (m == 0 || n == 0) return;
  const bool in_line = m * n * k <= kInLine;
  const std::int64_t depths = padded_to(k, Kernel::kDepthMultiple) / Kernel::kDepthPerElement;
  const PackedLayout<Kernel, Kernel::kColumns> columns{n, kBlockColumns, depths};
  const PackedLayout<Kernel, Kernel::kRows> rows{
      m, rows_of_block(m, columns.blocks(), in_line ? 1 : threads_per_device(), Kernel::kRows),
      depths};
  bool in_place = false;
  if constexpr (Kernel::kMayReadInPlace) in_place = Kernel::in_place(product.a, k, n);

  const PackingOfB<Kernel> packing{product.b, k, columns};
  const auto size_b = static_cast<std::size_t>(columns.size()) * sizeof(Element);
  const KeptOperand kept(device, product.b, product.b.trans ? n : k, product.b.trans ? k : n,
                         size_b, packing.run, &packing);
  const auto size_a = in_place ? 0 : static_cast<std::size_t>(rows.size()) * sizeof(Element);
  const Scratch scratch(size_a + (kept.data() ? 0 : size_b));
  Element* own = scratch.as<Element>();
  Element* packed_b = kept.data() ? static_cast<Element*>(const_cast<void*>(kept.data())) : own;
  Element* packed_a = in_place ? nullptr : kept.data() ? own : own + columns.size();
  const BlockedProduct<Kernel> blocked{product,  rows,     columns,
                                       packed_a, packed_b, kept.data() != nullptr};
  const std::int64_t packs = blocked.packs(), blocks = blocked.blocks();
  for_each(device, packs, in_line ? packs : 1, [&](std::int64_t i) { blocked.pack(i); });
  for_each(device, blocks, in_line ? blocks : 1, [&](std::int64_t i) { blocked.multiply(i); });
}

}  // namespace ringlet::cpu::RINGLET_ISA
