// How a buffer is dealt out over ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace ringlet::comm {

/// Elements [offset, offset + count) of a buffer: what one rank owns.
struct Piece {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};
using Pieces = std::vector<Piece>;  // one per rank, in order, disjoint

/// [0, n) in near-equal parts whose edges are multiples of `align`.
Pieces even_pieces(std::int64_t n, int parts, std::int64_t align = 1);

}  // namespace ringlet::comm
