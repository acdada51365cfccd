// The ring's all-reduce, step by step: as text and as a picture.
#pragma once

#include <string>
#include <vector>

#include "ringlet/comm/trace.h"

namespace ringlet::cli {

/// A line for each move of `ranks` ranks, under the line of its step, with the ranks
/// that the piece is then the sum of.
std::string describe_ring(const std::vector<comm::Move>& moves, int ranks);

/// SVG. Time runs downwards; each rank is a vertical line, rank 0 again at the right, as the ring
/// closes there. A move is a line in its piece's colour, then the piece's number; it ends in a dot.
/// "✓" follows where the piece is complete.
std::string draw_ring(const std::vector<comm::Move>& moves, int ranks);

}  // namespace ringlet::cli
