#include "ringlet/train/evaluators/pca.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/tensor/eigen.h"
#include "ringlet/models/modules/after_pooling.h"

namespace ringlet::train {
namespace {

/// A component, or its negative, by the sign of the largest entry.
Eigen::RowVectorXd with_positive_peak(const Eigen::RowVectorXd& component) {
  Eigen::Index peak = 0;
  component.cwiseAbs().maxCoeff(&peak);
  return component(peak) < 0 ? Eigen::RowVectorXd(-component) : component;
}

/// The variance that the rounding of f32 embeddings of this size may have.
double rounding_variance(const PrincipalComponents& found) {
  double squares = found.variances.front();
  for (const double mean : found.mean.to_vector<double>()) squares += mean * mean;
  constexpr double kUnit = 0x1p-24;
  return static_cast<double>(found.mean.numel()) * kUnit * kUnit * squares;
}

/// Divides each component by its standard deviation.
Tensor whitened(const PrincipalComponents& found) {
  const double least = rounding_variance(found);
  const auto varying = std::ranges::count_if(found.variances, [&](double v) { return v > least; });
  if (varying < std::ssize(found.variances))
    fail_input("whitening to ", found.variances.size(), " dimensions: the embeddings vary in ",
               varying, " only");
  Tensor weight = found.components.clone();  // (k, d)
  const auto columns = static_cast<std::size_t>(weight.size(1));
  auto* values = weight.mutable_data<double>();
  for (const double variance : found.variances)
    for (std::size_t c = 0; c < columns; ++c) *values++ /= std::sqrt(variance);
  return weight;
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

models::SentenceEncoder reduced_encoder(const models::SentenceEncoder& encoder,
                                        const PrincipalComponents& found, bool whiten) {
  const Tensor weight = whiten ? whitened(found) : found.components;
  const auto dense = std::make_shared<models::modules::Dense>(
      weight.size(1), weight.size(0),
      models::modules::DenseOptions{.bias = whiten,
                                    .activation = models::modules::Activation::identity});
  dense->parameter("linear.weight").mutable_tensor().copy_(weight.to(DType::f32));
  models::SentenceModules::After after = encoder.modules()->after();
  after.push_back(dense);
  if (whiten) {
    const Tensor bias = matmul(weight, found.mean.view({found.mean.numel(), 1})) * -1.0;  // (k, 1)
    dense->parameter("linear.bias")
        .mutable_tensor()
        .copy_(bias.view({bias.numel()}).to(DType::f32));
    after.push_back(std::make_shared<models::modules::Normalize>());
  }
  dense->to(encoder.device());
  auto reduced = encoder.around(std::make_shared<models::SentenceModules>(
      encoder.transformer(), encoder.pooling(), std::move(after)));
  reduced.set_truncate_dim({});
  return reduced;
}

}  // namespace ringlet::train
