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

#include <string.h>

#include "ringlet/core/cpu/gemm_pack.h"
#include "ringlet/core/cpu/gemm_product.h"
#include "ringlet/core/cpu/kept_operand.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/scratch.h"

namespace ringlet::cpu::RINGLET_ISA {

// The memory layout of operands when a product reads them.

constexpr std::int64_t min_of(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t blocks_of(std::int64_t n, std::int64_t block) {
  return (n + block - 1) / block;
}
constexpr std::int64_t padded_to(std::int64_t n, std::int64_t block) {
  return blocks_of(n, block) * block;
}

constexpr GemmRange range_of(std::int64_t index, std::int64_t block, std::int64_t n) {
  return {index * block, min_of(block, n - index * block)};
}

/// A packed operand: blocks of rows (of A) or columns (of B), each divided into blocks of depths,
/// each divided into panels (depths, kPlanes, kWidth). A product reads it in memory order.
template <class Kernel, std::int64_t kWidth>
struct PackedLayout {
  std::int64_t extent;  // rows or columns
  std::int64_t block;   // rows or columns per block, a multiple of kWidth
  std::int64_t depths;  // k in elements

  std::int64_t blocks() const { return blocks_of(extent, block); }
  std::int64_t depth_blocks() const { return blocks_of(depths, Kernel::kBlockDepth); }
  std::int64_t pieces() const { return blocks() * depth_blocks(); }
  /// In elements, a multiple of a cache line.
  std::int64_t size() const {
    return padded_to(padded_to(extent, kWidth) * depths * Kernel::kPlanes, 64);
  }
  GemmRange part(std::int64_t i) const { return range_of(i, block, extent); }
  GemmRange depth(std::int64_t i) const { return range_of(i, Kernel::kBlockDepth, depths); }
  std::int64_t at(GemmRange part, GemmRange depth) const {
    return (part.begin * depths + padded_to(part.size, kWidth) * depth.begin) * Kernel::kPlanes;
  }

  /// Packs piece `i` of x with Kernel::pack_a or pack_b; x is k numbers deep.
  template <class Pack>
  void pack(Pack pack, const GemmOperand& x, std::int64_t k, std::int64_t i,
            typename Kernel::Element* packed) const {
    const GemmRange in_part = part(i / depth_blocks()), in_depth = depth(i % depth_blocks());
    const std::int64_t first = in_depth.begin * Kernel::kDepthPerElement;
    const GemmRange numbers{first, min_of(in_depth.size * Kernel::kDepthPerElement, k - first)};
    pack(x, in_part, numbers, packed + at(in_part, in_depth),
         in_depth.size * Kernel::kPlanes * kWidth);
  }
};

/// A block of A as tiles read it, packed or in place; see TileRows.
template <class Element>
struct GemmRows {
  const Element* data;
  std::int64_t stride;  // of TileRows
  std::int64_t panel;   // elements between the rows of two adjacent tiles
  bool depths_together;
  std::int64_t rows;
  std::int64_t depths;
};

/// Prefetches a block into the cache in `parts` parts, between other computations.
template <std::int64_t kRows, class Element>
class Fetch {
 public:
  Fetch(const GemmRows<Element>& block, std::int64_t parts) : data_(block.data) {
    const bool packed = block.panel == kRows * block.depths;
    run_ = packed ? kLine : block.depths_together ? block.depths : block.rows;
    step_ = packed ? kLine : block.stride;
    const std::int64_t elements = padded_to(block.rows, packed ? kRows : 1) * block.depths;
    runs_ = run_ > 0 ? elements / run_ : 0;
    at_once_ = blocks_of(runs_, parts);
  }
  void next() {
    const std::int64_t end = min_of(done_ + at_once_, runs_);
    for (; done_ < end; ++done_)
      for (std::int64_t at = 0; at < run_; at += kLine)
        __builtin_prefetch(data_ + done_ * step_ + at, 0, 2);
  }

 private:
  static constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(Element));
  const Element* data_;
  std::int64_t run_, step_;  // contiguous elements, and from their first to the next one's
  std::int64_t runs_, at_once_, done_ = 0;
};

// The tasks of one product: packing the operands, then computing blocks of C.

// A block of 128 x 384 f32 sums takes 192 KiB of the level-2 cache.
inline constexpr std::int64_t kBlockRows = 128;
inline constexpr std::int64_t kBlockColumns = 384;

template <class Kernel>
struct BlockedProduct {
  static_assert(kBlockRows % Kernel::kRows == 0 && kBlockColumns % Kernel::kColumns == 0);
  using Sum = typename Kernel::Sum;
  using Element = typename Kernel::Element;

  const GemmProduct<Sum>& product;
  PackedLayout<Kernel, Kernel::kRows> rows;        // of A
  PackedLayout<Kernel, Kernel::kColumns> columns;  // of B
  Element* packed_a;                               // null: A is read in place
  Element* packed_b;
  bool b_is_packed;

  std::int64_t packs_of_b() const { return b_is_packed ? 0 : columns.pieces(); }
  std::int64_t packs() const { return packs_of_b() + (packed_a ? rows.pieces() : 0); }
  std::int64_t blocks() const { return rows.blocks() * columns.blocks(); }

  GemmRows<Element> rows_of(std::int64_t block, std::int64_t depth_block) const {
    if (block >= blocks()) return {nullptr, 0, 0, true, 0, 0};
    const GemmRange part = rows.part(block / columns.blocks()), depth = rows.depth(depth_block);
    if constexpr (Kernel::kMayReadInPlace)
      if (!packed_a) return Kernel::rows_in_place(product.a, part, depth);
    return {packed_a + rows.at(part, depth),
            Kernel::kRows,
            Kernel::kRows * depth.size,
            false,
            part.size,
            depth.size};
  }

  void pack(std::int64_t i) const {
    if (i < packs_of_b()) {
      columns.pack(Kernel::pack_b, product.b, product.k, i, packed_b);
    } else {
      rows.pack(Kernel::pack_a, product.a, product.k, i - packs_of_b(), packed_a);
    }
  }

  void multiply(std::int64_t block) const {
    const GemmRange height = rows.part(block / columns.blocks());
    const GemmRange width = columns.part(block % columns.blocks());
    const std::int64_t ldc = padded_to(width.size, Kernel::kColumns);
    const std::int64_t sums = padded_to(height.size, Kernel::kRows) * ldc;
    const Scratch scratch(static_cast<std::size_t>(sums) * sizeof(Sum));
    Sum* c = scratch.as<Sum>();  // (height, width)
    if (rows.depths == 0) memset(c, 0, static_cast<std::size_t>(sums) * sizeof(Sum));
    for (std::int64_t i = 0; i < rows.depth_blocks(); ++i) {
      const bool last = i + 1 == rows.depth_blocks();
      Kernel::multiply(rows_of(block, i), rows_of(last ? block + 1 : block, last ? 0 : i + 1),
                       packed_b + columns.at(width, columns.depth(i)), width.size, c, ldc, i > 0);
    }
    product.epilogue.run(product.epilogue.context,
                         {c, ldc, height.begin, width.begin, height.size, width.size});
  }
};

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
