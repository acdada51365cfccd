// All-reduces of ranks that share a GPU, as one launch there (core/device_objects.h).
#pragma once

#include <span>

#include "ringlet/comm/collectives.h"

namespace ringlet::comm {

/// run() for such parts. The ranks send rank 0 the addresses of their buffers in transport
/// messages, as to a peer that only reads. Rank 0 enqueues the launch that writes all of them.
void run_in_kernel(std::span<const RankPart> parts);

}  // namespace ringlet::comm
