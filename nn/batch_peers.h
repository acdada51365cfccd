// The ranks or devices that share a batch, for losses that compare its rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::nn {

/// Every rank calls the same functions in the same order. `counts` has the rows of each rank.
class BatchPeers {
 public:
  virtual ~BatchPeers() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// `count` of each rank, in rank order.
  virtual std::vector<std::int64_t> all_gather_count(std::int64_t count) = 0;
  /// This rank's `rows` (counts[rank], ..) of every rank, joined in rank order.
  virtual Tensor all_gather_rows(const Tensor& rows, std::span<const std::int64_t> counts) = 0;
  /// This rank's rows of the sum over ranks of `all` (sum of counts, ..), which it may overwrite.
  virtual Tensor reduce_scatter_rows(Tensor all, std::span<const std::int64_t> counts) = 0;
};

}  // namespace ringlet::nn
