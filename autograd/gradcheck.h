// gradcheck: tests that a function's backward is the derivative of its forward.
#pragma once

#include <functional>
#include <vector>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// The error of analytic gradients a against numeric ones b: the largest |a - b| / max(|b|, 1).
struct GradcheckReport {
  double error = 0;
  double allowed = 0;
  std::size_t input = 0;  // position of the largest error
  std::int64_t element = 0;
  double analytic = 0;
  double numeric = 0;
  bool ok() const { return error <= allowed; }
};

/// Compares the gradient of sum(weights * function(inputs)), with fixed pseudo-random weights, to
/// central differences (f(x + h) - f(x - h)) / 2h. Inputs are f64 leaves that require a gradient
/// (others are ignored); the function must be smooth within h of them. The default allowance is the
/// error model of the difference: h^2 from truncation and eps_f64 / h from rounding. At h = 1e-5
/// both are about 1e-10 times the size of values; the allowance has three digits to spare.
GradcheckReport gradcheck(const std::function<Variable(const std::vector<Variable>&)>& function,
                          const std::vector<Variable>& inputs, double h = 1e-5,
                          double allowed = 1e-7);

}  // namespace ringlet::autograd
