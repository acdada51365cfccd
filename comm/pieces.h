// How a buffer is divided among ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace ringlet::comm {

/// Elements [offset, offset + count) of a buffer, owned by one rank.
struct Piece {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};
using Pieces = std::vector<Piece>;  // one per rank, in order, disjoint

/// Cuts [0, n) into near-equal parts with edges at multiples of `align`.
Pieces even_pieces(std::int64_t n, int parts, std::int64_t align = 1);

}  // namespace ringlet::comm
