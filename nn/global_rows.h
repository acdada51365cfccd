// The rows that a loss compares: a batch's, or those of all ranks that share a global batch.
#pragma once

#include <vector>

#include "ringlet/autograd/variable.h"
#include "ringlet/comm/group.h"

namespace ringlet::nn {

/// Rows are in rank order. Made on all ranks together; so is each gather() and its backward.
class GlobalRows {
 public:
  /// `own` rows are this rank's.
  GlobalRows(comm::Group group, std::int64_t own);

  std::int64_t size() const { return size_; }
  std::int64_t own() const { return own_; }
  /// This rank's rows are [begin, begin + own).
  std::int64_t begin() const { return begin_; }

  /// Embeddings (columns * own, H), ordered by column, of every rank: (columns * size, H), ordered
  /// by column, then by rank. The gradient of a row is the sum of all ranks' gradients.
  Variable gather(const Variable& embeddings, std::int64_t columns) const;
  /// A value (own) of each row, of every rank: (size).
  Tensor gather_values(const Tensor& values) const;
  /// The weight of these rows in a global batch of so many: less than 1 if it consists of several
  /// batches. For losses that are not a mean over rows.
  double weight_in(std::int64_t global_rows) const {
    return static_cast<double>(size_) / static_cast<double>(global_rows);
  }

 private:
  comm::Group group_;
  std::vector<std::int64_t> counts_;  // of each rank
  std::int64_t own_, begin_ = 0, size_;
};

}  // namespace ringlet::nn
