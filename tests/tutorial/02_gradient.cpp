// Lesson 2: a Variable remembers how it was made, and backward walks that memory in reverse.
#include <doctest/doctest.h>

#include <cmath>
#include <iostream>

#include "ringlet.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("02 gradient") {
  // y = x^2 + 3x has the slope 2x + 3.
  const Variable x(tensor({2.f}), /*requires_grad=*/true);
  const Variable y = x * x + x * 3;
  // The memory as a drawing: Graphviz's `dot -Tsvg` makes a picture of it.
  const std::string graph = to_dot(y);
  std::cout << graph;
  CHECK(graph.find("op0 -> op2") != graph.npos);  // x * x is added to x * 3
  y.backward();
  std::cout << "y = x^2 + 3x at x = 2: y = " << y.item() << ", dy/dx = " << x.grad().item() << "\n";
  CHECK(x.grad().item() == 7);

  // A second backward accumulates; zero_grad resets. So gradients accumulate over parts of a batch.
  sum(x * 10).backward();
  CHECK(x.grad().item() == 17);
  x.zero_grad();

  // The chain rule through any number of steps: d tanh(exp(x)) / dx = (1 - tanh^2) exp(x).
  const Variable z = tanh(exp(x));
  z.backward();
  const float e = std::exp(2.f), expected = (1 - std::tanh(e) * std::tanh(e)) * e;
  std::cout << "d tanh(exp(x))/dx = " << x.grad().item() << "\n";
  CHECK(x.grad().item() == doctest::Approx(expected).epsilon(1e-3));

  // How do we know that a gradient is right? By differences: (f(x + h) - f(x - h)) / 2h, in f64.
  const Variable a(uniform({3, 4}, -1, 1, DType::f64), true);
  const Variable b(uniform({4, 2}, -1, 1, DType::f64), true);
  const GradcheckReport report = gradcheck(
      [](const std::vector<Variable>& in) { return sigmoid(matmul(in[0], in[1])); }, {a, b});
  std::cout << "gradcheck of sigmoid(a b): largest difference " << report.error << ", allowed "
            << report.allowed << "\n";
  CHECK(report.ok());

  // If no gradient is needed, nothing is recorded.
  const NoGrad no_grad;
  CHECK_FALSE((x * 2).requires_grad());
}
