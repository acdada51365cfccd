// The tasks of one product: packing the operands, then computing blocks of C.
#pragma once

#include <string.h>

#include "ringlet/core/cpu/gemm_layout.h"
#include "ringlet/core/cpu/scratch.h"

namespace ringlet::cpu::RINGLET_ISA {

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

}  // namespace ringlet::cpu::RINGLET_ISA
