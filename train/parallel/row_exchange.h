// The sum over ranks of a table in which each rank has written few rows.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ringlet/autograd/variable.h"
#include "ringlet/comm/group.h"

namespace ringlet::train {

/// The rows that this rank's backwards write, by table, and the tables that are summed whole. One
/// rank's batch says nothing about the rows of its peers. All ranks therefore exchange rows until
/// some rank does not know its own; from then on the table is summed whole. On a GPU it always is:
/// there the host does not know the rows without waiting.
class RowTables {
 public:
  /// Waits for the rows and writes the sums for elements [begin, begin + out.numel()) of the table
  /// to `out` (n). It must be zero where no rank has rows. Each row is added by the tree over the
  /// ranks (core/ops/sum_tree.h); a rank that does not have it adds +0. This gives the bits of a
  /// dense sum.
  using Finish = std::function<void(Tensor out, std::int64_t begin)>;

  /// Records that these rows (i32) of the gradient of `table` are being written.
  void note(const autograd::VariableState& table, const Tensor& rows);
  /// Its next gradient begins with zero.
  void forget(const autograd::VariableState& table) { rows_.erase(&table); }
  /// Sends the rows of its gradient (V, C), f32 or f64, that this rank has written. Empty if the
  /// whole table is to be summed: some rank does not know its rows, or they are not fewer than the
  /// table has. Collective: every rank calls it for the same tables in the same order.
  Finish exchange(const autograd::VariableState& table, const comm::Group& group);

 private:
  std::unordered_map<const autograd::VariableState*, std::vector<std::int32_t>> rows_;
  std::unordered_set<const autograd::VariableState*> whole_;  // the same on all ranks
};

}  // namespace ringlet::train
