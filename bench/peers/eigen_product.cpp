#include "eigen_product.h"

#include <Eigen/Core>

namespace ringlet::bench {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Matrix> map(const EigenMatrix& x) { return {x.data, x.rows, x.columns}; }

}  // namespace

void eigen_product(const EigenMatrix& a, const EigenMatrix& b, float* out, int threads) {
  Eigen::setNbThreads(threads);
  Eigen::Map<Matrix> result(out, a.transposed ? a.columns : a.rows,
                            b.transposed ? b.rows : b.columns);
  if (a.transposed)
    result.noalias() = map(a).transpose() * map(b);
  else if (b.transposed)
    result.noalias() = map(a) * map(b).transpose();
  else
    result.noalias() = map(a) * map(b);
}

}  // namespace ringlet::bench
