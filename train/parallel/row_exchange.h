// The sum over ranks of a table of which each rank has filled in few rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  /// Puts the sums into the table.
  void finish();

 private:
  bool agree(const std::string& mine, const comm::Group& group);

  Tensor table_;
  std::vector<std::vector<std::int32_t>> rows_;  // of each rank, ascending
  Tensor gathered_;                              // (rows of all ranks, C)
  comm::Work work_;
  bool sparse_ = false;
};

}  // namespace ringlet::train
