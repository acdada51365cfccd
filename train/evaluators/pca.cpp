#include "ringlet/train/evaluators/pca.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/tensor/eigen.h"

namespace ringlet::train {
namespace {

/// A component, or its negative, by the sign of the largest entry.
Eigen::RowVectorXd with_positive_peak(const Eigen::RowVectorXd& component) {
  Eigen::Index peak = 0;
  component.cwiseAbs().maxCoeff(&peak);
  return component(peak) < 0 ? Eigen::RowVectorXd(-component) : component;
}

}  // namespace

double PrincipalComponents::kept() const {
  const double along = std::accumulate(variances.begin(), variances.end(), 0.0);
  return total_variance > 0 ? std::min(1.0, along / total_variance) : 1;
}

Pca::Pca(std::int64_t columns)
    : sum_(zeros({1, columns}, DType::f64, Device{})),
      products_(zeros({columns, columns}, DType::f64, Device{})) {}

void Pca::add(const Tensor& rows) {
  check_shape("pca", "rows", rows, {rows.size(0), sum_.size(1)});
  const Tensor x = rows.to(DType::f64);  // (n, d)
  matmul_into(products_, x, x, {.trans_a = true}, 1);
  eigen::mutable_map<double>(sum_) += eigen::map<double>(x).colwise().sum();
  rows_ += x.size(0);
}

PrincipalComponents Pca::components(std::int64_t k) const {
  const std::int64_t d = sum_.size(1);
  RINGLET_CHECK(rows_ >= 2, "[pca] needs two rows, not ", rows_);
  RINGLET_CHECK(k >= 1 && k <= d, "[pca] ", k, " components of ", d, " columns");
  const auto n = static_cast<double>(rows_);
  const eigen::Matrix<double> mean = eigen::map<double>(sum_) / n;  // (1, d)
  const eigen::Matrix<double> covariance =
      (eigen::map<double>(products_) - n * mean.transpose() * mean) / (n - 1);
  if (!covariance.allFinite()) fail_input("principal components: an embedding is not finite");
  // Rows that are equal but for the rounding of f32, of 2^-24, have squares that differ by its.
  const double mean_square = eigen::map<double>(products_).trace() / n;
  if (covariance.trace() <= n * 0x1p-48 * mean_square)
    fail_input("principal components: expected embeddings that differ, found ", rows_,
               " equal ones");
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);  // ascending
  RINGLET_CHECK(solver.info() == Eigen::Success, "[pca] the eigenvalues did not converge");

  PrincipalComponents found;
  eigen::Matrix<double> components(k, d);
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t at = d - 1 - i;
    components.row(i) = with_positive_peak(solver.eigenvectors().col(at).transpose());
    found.variances.push_back(std::max(solver.eigenvalues()(at), 0.0));
  }
  found.components = eigen::tensor_of(std::move(components));
  found.mean = eigen::tensor_of(mean).view({d});
  found.total_variance = covariance.trace();
  return found;
}

}  // namespace ringlet::train
