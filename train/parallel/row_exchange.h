// The sum over ranks of a table of which each rank has filled in few rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ringlet/autograd/variable.h"
#include "ringlet/comm/group.h"

namespace ringlet::train {

/// Ranks send the rows they have instead of the whole table. Each row is added in rank order, from
/// the first rank that has it, which gives the bits of a dense sum: rows that a rank does not have
/// are +0 there, and no gradient of an embedding is -0.
class RowExchange {
 public:
  /// Collective. `table` (V, C) f32 or f64 is this rank's, `rows` say where it is not zero, in any
  /// order, some perhaps twice; `known` is false where that cannot be said.
  RowExchange(Tensor table, std::vector<std::int32_t> rows, bool known, const comm::Group& group);

  /// False if some rank does not know its rows, or sending them is no less than all of the table:
  /// then nothing is on its way.
  bool sparse() const { return sparse_; }
  /// Whether every rank knows its rows.
  bool known() const { return known_; }
  /// Puts the sums into elements [begin, begin + out.numel()) of the table, which are `out` (n) and
  /// zero where no rank has rows.
  void finish(Tensor out, std::int64_t begin);
  /// Into all of the table.
  void finish() { finish(table_.view({-1}), 0); }

 private:
  void agree(const std::string& mine, const comm::Group& group);

  Tensor table_;
  std::vector<std::vector<std::int32_t>> rows_;  // of each rank, ascending
  Tensor gathered_;                              // (rows of all ranks, C)
  comm::Work work_;
  bool known_ = true;
  bool sparse_ = false;
};

/// The rows that this rank's backwards write, by table, and which tables are worth asking about:
/// what one rank's batch does to a table says nothing of the others', so all ask until some rank
/// has said that it does not know its rows. From then on nobody does, and the table goes as a
/// whole, as it does on a GPU always: there the host does not know the rows without waiting.
class RowTables {
 public:
  /// Of the gradient of `table` these rows (i32) are being written.
  void note(const autograd::VariableState& table, const Tensor& rows);
  /// Its next gradient begins with zero.
  void forget(const autograd::VariableState& table) { rows_.erase(&table); }
  /// The exchange of its gradient (V, C), under way; none where all of it is to be summed.
  /// Collective: every rank calls it for the same tables in the same order.
  std::optional<RowExchange> exchange(const autograd::VariableState& table,
                                      const comm::Group& group);

 private:
  std::unordered_map<const autograd::VariableState*, std::vector<std::int32_t>> rows_;
  std::unordered_set<const autograd::VariableState*> whole_;  // alike on all ranks
};

}  // namespace ringlet::train
