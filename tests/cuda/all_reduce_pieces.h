// The pieces of the CPU's collectives, in the format of plan_all_reduce.
#pragma once

#include <vector>

#include "ringlet/comm/types.h"

namespace ringlet::cuda {

/// The edges of a Group's pieces of n elements over `ranks` ranks.
inline std::vector<std::int64_t> edges_of(std::int64_t n, int ranks) {
  std::vector<std::int64_t> edges{0};
  for (const auto& [offset, count] : comm::even_pieces(n, ranks, 16))
    edges.push_back(offset + count);
  return edges;
}

}  // namespace ringlet::cuda
