// Exercises of lesson 1: tensors.
#include "ringlet.h"

using namespace ringlet;

// 1. A table of `rows` rows and `columns` columns that counts 0, 1, 2, … row after row (f32).
Tensor counted(std::int64_t rows, std::int64_t columns) {
  // gap: arange makes the numbers in one dimension, view gives them two.
  return arange(0, static_cast<double>(rows * columns), 1, DType::f32).view({rows, columns});
  // end: return {};
}

// 2. `x` (N, D) moved so that each of its D columns has the mean 0.
Tensor centred(const Tensor& x) {
  // gap: mean(x, {0}) has one number for each column; broadcasting subtracts it from all rows.
  return x - mean(x, {0});
  // end: return {};
}

// 3. The squared distances of all points: a (N, D), b (M, D) -> (N, M), without a loop.
Tensor squared_distances(const Tensor& a, const Tensor& b) {
  // gap: |a - b|² = |a|² + |b|² - 2 a b. A product with trans_b has all a b; keepdim helps.
  const Tensor of_a = sum(square(a), {1}, /*keepdim=*/true);  // (N, 1)
  const Tensor of_b = sum(square(b), {1});                    // (M)
  return of_a + of_b - 2 * matmul(a, b, {.trans_b = true});
  // end: return {};
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "a table that counts") {
  expect("counted(2, 3)", counted(2, 3), tensor<float>({0, 1, 2, 3, 4, 5}, {2, 3}),
         "a view has the same elements in another shape");
  expect("its dtype", std::string(name(counted(1, 2).dtype())), "f32",
         "the fourth argument of arange is the dtype");
}

EXERCISE(2, "columns with the mean 0") {
  expect("centred([[1, 10], [3, 30]])", centred(tensor<float>({1, 10, 3, 30}, {2, 2})),
         tensor<float>({-1, -10, 1, 10}, {2, 2}), "axis 0 runs over the rows");
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 9}, {3, 2});
  static_cast<void>(centred(x));
  expect("x afterwards", x, tensor<float>({1, 2, 3, 4, 5, 9}, {3, 2}), "leave x as it was");
}

EXERCISE(3, "all squared distances") {
  const Tensor a = tensor<float>({0, 0, 3, 4}, {2, 2});
  const Tensor b = tensor<float>({0, 0, 3, 0, 6, 8}, {3, 2});
  expect("the distances of 2 and 3 points", squared_distances(a, b),
         tensor<float>({0, 9, 100, 25, 16, 25}, {2, 3}),
         "a's part is a column (N, 1), b's a row (M): their sum has the shape (N, M)");
}
