// The rows that a loss compares: a batch's, or those of all ranks that share a global batch.
#pragma once

#include <memory>
#include <vector>

#include "ringlet/autograd/variable.h"
#include "ringlet/comm/group.h"
#include "ringlet/comm/logical_sum.h"
#include "ringlet/core/base/error.h"

namespace ringlet::nn {

/// The rows of a step where a rank has a block of several logical ranks. Their losses run
/// sequentially, and each compares its rows with those of all:
///
///   BlockRows rows(group, rows_of_each, logical_ranks);
///   until each has a value: rows.start(i); value[i] = loss(..);    // or Missing is thrown
///   for each gather, from the last: if (rows.collect(gather)) value[i].backward() of each;
///
/// From then on a loss gets the rows of all, and its backward the sum of all losses' gradients. All
/// ranks of the group make it together, and their losses the same gathers.
class BlockRows {
 public:
  /// Thrown by gather() if another logical rank of the block has not come as far.
  struct Missing : Error {
    Missing() : Error("a loss gathers other rows than before") {}
  };

  /// `own`: rows of each logical rank of this rank.
  BlockRows(comm::Group group, const std::vector<std::int64_t>& own, int logical_ranks);

  const std::vector<std::int64_t>& counts() const { return counts_; }  // (logical ranks)
  int logical_rank(std::size_t place) const { return block_.begin + static_cast<int>(place); }

  /// Logical rank `place` of the block evaluates its loss from the beginning.
  void start(std::size_t place);
  /// The next gather of the started one. `own` (columns * own rows, ..) is ordered by column, the
  /// result (columns * all rows, ..) by column, then by logical rank.
  Tensor gather(const Tensor& own, std::int64_t columns, bool has_gradient);
  std::size_t place() const { return place_; }
  /// The number of gather() calls since start(), and so of the gather that was called last, + 1.
  std::size_t gathers() const { return next_; }

  /// The next backwards, one of each logical rank in order, bring the gradients of this gather.
  /// False if it has none.
  bool collect(std::size_t gather);
  /// The gradient of a logical rank's own rows, from all; undefined until it has been collected.
  /// `grad` is that of all rows, in one loss.
  Tensor gradient(std::size_t gather, std::size_t place, const Tensor& grad);

 private:
  struct Gathered {
    std::int64_t columns = 1;
    bool has_gradient = false;
    std::vector<Tensor> own = {};  // of each logical rank of the block, as far as they are known
    Tensor all = {};
    Tensor gradient = {};  // (columns * block's rows, ..), by logical rank, then by column
  };
  void gather_all(Gathered& gathered);
  void sum_gradients(Gathered& gathered, const std::vector<Tensor>& nodes, const Shape& shape);

  comm::Group group_;
  int logical_ranks_;
  LeafRange block_;
  std::vector<std::int64_t> counts_;    // rows of each logical rank
  std::vector<std::int64_t> by_group_;  // of each rank of the group
  std::vector<Gathered> gathered_;
  comm::LogicalSum sum_;  // of the gradients that are being collected
  std::size_t place_ = 0, next_ = 0, collecting_ = 0;
};

/// Rows are in the order of (logical) ranks. Made on all ranks together; so is each gather() and
/// its backward.
class GlobalRows {
 public:
  /// `own` rows are this rank's.
  GlobalRows(comm::Group group, std::int64_t own);
  /// The own rows are those of the logical rank that `block` was started for.
  explicit GlobalRows(std::shared_ptr<BlockRows> block);

  std::int64_t size() const { return size_; }
  std::int64_t own() const { return own_; }
  /// This (logical) rank's rows are [begin, begin + own).
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
  void count(int rank);

  std::shared_ptr<BlockRows> block_;  // null: one logical rank on each rank
  comm::Group group_;
  std::vector<std::int64_t> counts_;  // of each rank
  std::int64_t own_, begin_ = 0, size_ = 0;
};

}  // namespace ringlet::nn
