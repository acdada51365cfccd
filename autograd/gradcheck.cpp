#include "ringlet/autograd/gradcheck.h"

#include <cmath>

namespace ringlet::autograd {
namespace {

// Weights in [-1, 1), on the host; irregular, so that no symmetry of a function cancels.
Tensor fixed_weights(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<double>(state >> 11) / 4503599627370496.0 - 1.0;
  }
  return tensor(values, shape, Device{});
}

double weighted_sum(const Tensor& y, const Tensor& weights) {
  const std::vector<double> a = y.to_vector<double>(), b = weights.to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

}  // namespace

GradcheckReport gradcheck(const std::function<Variable(const std::vector<Variable>&)>& function,
                          const std::vector<Variable>& inputs, double h, double allowed) {
  for (const Variable& input : inputs) {
    if (!input.requires_grad()) continue;
    RINGLET_CHECK_EQ(input.dtype(), DType::f64, "[gradcheck] inputs must be f64");
    input.zero_grad();
  }
  const Variable y = function(inputs);
  const Tensor weights = fixed_weights(y.shape());
  y.backward(weights.to(y.tensor().device()));

  GradcheckReport report;
  report.allowed = allowed;
  const NoGrad no_grad;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    const Tensor grad = inputs[k].grad();
    RINGLET_CHECK(grad.defined() || inputs[k].numel() == 0, "[gradcheck] input ", k,
                  " got no gradient");
    if (inputs[k].numel() == 0) continue;
    const std::vector<double> values = inputs[k].tensor().to_vector<double>();
    const std::vector<double> slopes = grad.to_vector<double>();
    for (std::int64_t i = 0; i < inputs[k].numel(); ++i) {
      const double x = values[static_cast<std::size_t>(i)];
      const auto value_at = [&](double there) {
        inputs[k].mutable_tensor().view({-1})[i].fill_(there);
        return weighted_sum(function(inputs).tensor(), weights);
      };
      const double numeric = (value_at(x + h) - value_at(x - h)) / (2 * h);
      value_at(x);
      const double analytic = slopes[static_cast<std::size_t>(i)];
      const double error = std::abs(analytic - numeric) / std::fmax(std::abs(numeric), 1.0);
      if (error > report.error || std::isnan(error))
        report = {std::isnan(error) ? INFINITY : error, allowed, k, i, analytic, numeric};
    }
  }
  return report;
}

}  // namespace ringlet::autograd
