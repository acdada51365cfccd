// Eigen's product of two matrices. Its unit is built for this machine's processor, so it includes
// nothing of ringlet.
#pragma once

#include <cstdint>

namespace ringlet::bench {

struct EigenMatrix {
  const float* data;  // row-major
  std::int64_t rows, columns;
  bool transposed;
};

/// out = op(a) op(b)
void eigen_product(const EigenMatrix& a, const EigenMatrix& b, float* out, int threads);

}  // namespace ringlet::bench
