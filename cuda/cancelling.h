// Operands of a product with exact value 0: the result is the rounding error of the sums alone. So
// a different order of summation shows in any output dtype, even a short one.
#pragma once

#include "ringlet/cuda/matmul_plan.h"

namespace ringlet::cuda {

/// An element is `sign` times the noise of element `like`.
struct Cancelling {
  std::int64_t like;
  int sign;
};

/// Element i of a batch of matrices in memory, summed along their columns or their rows. The second
/// half of a sum repeats the first half backwards, with opposite sign in the operand that is
/// `negated`. So halves that are summed separately cancel only after they are rounded.
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
