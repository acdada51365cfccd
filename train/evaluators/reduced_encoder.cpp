#include "ringlet/train/evaluators/reduced_encoder.h"

#include <algorithm>
#include <cmath>

#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/models/modules/dense.h"
#include "ringlet/models/modules/normalize.h"

namespace ringlet::train {
namespace {

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
