// Collectives over rows: each rank has its own number of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

/// `count` of each rank, in rank order.
std::vector<std::int64_t> all_gather_count(const Group& group, std::int64_t count);
/// The rows (counts[rank], ..) of every rank, joined in rank order.
Tensor all_gather_rows(const Group& group, const Tensor& rows,
                       std::span<const std::int64_t> counts);
/// This rank's rows of the sum over the ranks of `all` (sum of counts, ..), which may be
/// overwritten.
Tensor reduce_scatter_rows(const Group& group, const Tensor& all,
                           std::span<const std::int64_t> counts);

}  // namespace ringlet::comm
