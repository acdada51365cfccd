// Operands of a product whose exact value is 0: what a library makes of them is the rounding of its
// sums alone, which sums in another order have otherwise, however short the numbers they end in.
#pragma once

#include "ringlet/cuda/matmul_plan.h"

namespace ringlet::cuda {

/// An element is `sign` times the noise of element `like`.
struct Cancelling {
  std::int64_t like;
  int sign;
};

/// Element i in memory of a batch of matrices whose sums run along their columns or their rows. The
/// second half of a sum has the numbers of the first half backwards, with the other sign in the
/// operand that is `negated`: halves that are added apart do not cancel before they are rounded.
RINGLET_HOST_DEVICE Cancelling cancelling(const ColumnMajor& matrix, bool along_columns,
                                          bool negated, std::int64_t i) {
  const std::int64_t local = i % (matrix.stride > 0 ? matrix.stride : matrix.ld * matrix.columns);
  const std::int64_t column = local / matrix.ld, row = local - column * matrix.ld;
  const std::int64_t place = along_columns ? column : row;
  const std::int64_t twin = (along_columns ? matrix.columns : matrix.rows) - 1 - place;
  if (place == twin) return {i, 0};
  if (place < twin) return {i, 1};
  return {i - (place - twin) * (along_columns ? matrix.ld : 1), negated ? -1 : 1};
}

}  // namespace ringlet::cuda
