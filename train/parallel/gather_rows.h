// Combines rows that the ranks computed separately.
#pragma once

#include "ringlet/comm/group.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet::train {

/// Every rank has filled some rows of `table` (f32, on a CPU) and left zeros in the rest; one rank
/// fills each row. Gives all rows to all ranks, bit for bit.
inline void gather_rows(Tensor& table, const comm::Group& group) {
  if (group.size() == 1) return;
  RINGLET_CHECK_EQ(table.dtype(), DType::f32, "[gather_rows] rows of");
  // As integers: adding zeros changes no bit, not even the sign of a zero.
  group.all_reduce(Tensor(table.storage(), table.storage_offset(), table.shape(), DType::i32))
      .wait();
}

}  // namespace ringlet::train
