// The memory layout of operands when a product reads them.
#pragma once

#include "ringlet/core/cpu/gemm_pack.h"

namespace ringlet::cpu::RINGLET_ISA {

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

}  // namespace ringlet::cpu::RINGLET_ISA
