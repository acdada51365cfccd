// All-reduces of ranks that share a GPU, which one launch there runs (core/device_ranks.h).
#pragma once

#include <span>

#include "ringlet/comm/collectives.h"

namespace ringlet::comm {

/// Whether an all-reduce of this algorithm is one launch.
bool is_in_kernel(Algorithm algorithm);

/// run() of such parts: the ranks show rank 0 their buffers by messages of the transport, as to a
/// peer that only reads, and rank 0 gives its stream the launch that writes them all.
void run_in_kernel(std::span<const RankPart> parts);

}  // namespace ringlet::comm
