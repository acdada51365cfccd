// Exercises of lesson 2: gradients.
#include "ringlet.h"

using namespace ringlet;

// 1. The slope of y = x³ - 2x at `at`, by backward.
float slope_at(float at) {
  // gap: make a leaf that requires a gradient, compute y, call y.backward(), read x.grad().
  const Variable x(tensor({at}), /*requires_grad=*/true);
  const Variable y = x * x * x - x * 2;
  y.backward();
  return x.grad().item();
  // end: return 0;
}

// 2. The same for any f, without a tape: the slope between two points h on either side of x.
double difference(const std::function<double(double)>& f, double x, double h) {
  // gap: the change of f divided by the change of x.
  return (f(x + h) - f(x - h)) / (2 * h);
  // end: return 0;
}

// 3. A tape. A number remembers the numbers it was computed from, and its slope in each of them.
struct Number {
  double value = 0;
  double grad = 0;
  std::vector<std::pair<Number*, double>> inputs = {};  // (input, slope)
};

Number sum_of(Number& a, Number& b) { return {a.value + b.value, 0, {{&a, 1}, {&b, 1}}}; }

Number product_of(Number& a, Number& b) {
  // gap: as sum_of. The slope of a b in a is b.
  return {a.value * b.value, 0, {{&a, b.value}, {&b, a.value}}};
  // end: return {};
}

/// `tape` has the numbers in the order in which they were computed; the last one is y.
void run_backward(const std::vector<Number*>& tape) {
  // gap: y's gradient is 1. From the last number to the first, add to the gradients of its inputs.
  tape.back()->grad = 1;
  for (std::size_t i = tape.size(); i-- > 0;)
    for (const auto& [input, slope] : tape[i]->inputs) input->grad += slope * tape[i]->grad;
  // end:
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "a slope by backward") {
  expect("the slope at 2", slope_at(2), 10, "3 x² - 2 is 10 at 2");
  expect("the slope at -1", slope_at(-1), 1, "3 x² - 2 is 1 at -1");
}

EXERCISE(2, "a slope by differences") {
  const auto square = [](double x) { return x * x; };
  expect("of x² at 3, h = 0.5", difference(square, 3, 0.5), 6, "f(x + h) - f(x - h), over 2 h");
  const auto cube = [](double x) { return x * x * x; };
  expect("of x³ at 1, h = 0.1", difference(cube, 1, 0.1), 3.01, "use both sides of x");
}

EXERCISE(3, "a tape by hand") {
  Number a{3}, b{4};
  Number ab = product_of(a, b);
  expect("3 times 4", ab.value, 12, "the value comes first");
  Number y = sum_of(ab, a);  // y = a b + a
  run_backward({&a, &b, &ab, &y});
  expect("dy/dy", y.grad, 1, "y moves as much as y");
  expect("dy/db of y = a b + a", b.grad, 3, "the slope of a b in b is a");
  expect("dy/da of y = a b + a", a.grad, 5, "a is used twice: add the gradients, b + 1");
  Number c{2};
  Number squared = product_of(c, c), cube = product_of(squared, c);
  run_backward({&c, &squared, &cube});
  expect("dy/dc of y = c³ at 2", c.grad, 12, "multiply by the gradient of the number itself");
}
