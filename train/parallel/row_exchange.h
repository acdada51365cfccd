// The sum over ranks of a table in which each rank has written few rows.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ringlet/autograd/variable.h"
#include "ringlet/comm/group.h"

namespace ringlet::train {

/// Ranks send the rows that they have written instead of the whole table. Each row is added by the
/// tree over the ranks (core/ops/sum_tree.h); a rank that does not have it adds +0. This gives the
/// bits of a dense sum.
class RowExchange {
 public:
  /// Collective. `table` (V, C) f32 or f64 is this rank's; `rows` are those that are not zero, in
  /// any order, perhaps with duplicates. `known` is false if this rank cannot name them.
  RowExchange(Tensor table, std::vector<std::int32_t> rows, bool known, const comm::Group& group);

  /// False if some rank does not know its rows, or if sending them is not less than the whole
  /// table. Then nothing is in flight.
  bool sparse() const { return sparse_; }
  /// Whether every rank knows its rows.
  bool known() const { return known_; }
  /// Writes the sums for elements [begin, begin + out.numel()) of the table to `out` (n), which
  /// must be zero where no rank has rows.
  void finish(Tensor out, std::int64_t begin);
  /// Writes them to the whole table.
  void finish() { finish(table_.view({-1}), 0); }

 private:
  void agree(const std::vector<std::int32_t>& mine, const comm::Group& group);

  Tensor table_;
  std::vector<std::vector<std::int32_t>> rows_;  // of each rank, ascending
  Tensor gathered_;                              // (rows of all ranks, C)
  comm::Work work_;
  bool known_ = true;
  bool sparse_ = false;
};

/// The rows that this rank's backwards write, by table, and the tables that are summed whole. One
/// rank's batch says nothing about the rows of its peers. All ranks therefore exchange rows until
/// some rank does not know its own; from then on the table is summed whole. On a GPU it always is:
/// there the host does not know the rows without waiting.
class RowTables {
 public:
  /// Records that these rows (i32) of the gradient of `table` are being written.
  void note(const autograd::VariableState& table, const Tensor& rows);
  /// Its next gradient begins with zero.
  void forget(const autograd::VariableState& table) { rows_.erase(&table); }
  /// The exchange in flight of its gradient (V, C); none if the whole table is to be summed.
  /// Collective: every rank calls it for the same tables in the same order.
  std::optional<RowExchange> exchange(const autograd::VariableState& table,
                                      const comm::Group& group);

 private:
  std::unordered_map<const autograd::VariableState*, std::vector<std::int32_t>> rows_;
  std::unordered_set<const autograd::VariableState*> whole_;  // the same on all ranks
};

}  // namespace ringlet::train
