#include "ringlet/core/ops/max_pool.h"

#include <doctest/doctest.h>

#include <cmath>

#include "../device.h"

using namespace ringlet;

TEST_CASE("max_pool2d takes the largest of every whole window") {
  const Tensor x = tensor<float>({1, 5, 2, 9, 4, 3, 8, 9, 7, 7, 7, 7}, {1, 1, 3, 4});
  const MaxPool2dOutput out = max_pool2d(x, 2);  // the third row has no whole window
  CHECK(out.y.shape() == Shape{1, 1, 1, 2});
  CHECK(out.y.to_vector() == std::vector<float>{5, 9});
  CHECK(out.indices.to_vector<int>() == std::vector<int>{1, 3});  // the first of two nines
  CHECK(max_pool2d_backward(tensor<float>({1, 2}, {1, 1, 1, 2}), out.indices, x.shape())
            .to_vector() == std::vector<float>{0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("NaN is seen, other dtypes go through, no batch is no work") {
  const Tensor nan = tensor<float>({1, NAN, 3, 2}, {1, 1, 2, 2});
  CHECK(std::isnan(max_pool2d(nan, 2).y.item()));
  for (DType dtype : {DType::f64, DType::bf16}) {
    const Tensor x = arange(0, 2 * 3 * 36, 1, dtype).view({2, 3, 6, 6});
    const MaxPool2dOutput out = max_pool2d(x, 3);
    CHECK(out.y.dtype() == dtype);
    CHECK(out.y.view({-1})[0].item() == 14);
    CHECK(out.y.view({-1})[23].item() == max_pool2d(x.to(DType::f32), 3).y.view({-1})[23].item());
  }
  CHECK(max_pool2d(empty({0, 3, 4, 4}), 2).y.shape() == Shape{0, 3, 2, 2});
  CHECK_THROWS_WITH(max_pool2d(zeros({1, 1, 3, 3}), 4),
                    "[max_pool2d] kernel 4 and stride 4 on (1, 1, 3, 3)");
}

TEST_CASE_FIXTURE(OnCpu, "the gradient of max_pool2d writes no place outside of its plane") {
  for (int outside : {-1, 4})
    CHECK_THROWS_WITH_AS(
        max_pool2d_backward(ones({1, 1, 1, 1}), tensor<int>({outside}, {1, 1, 1, 1}), {1, 1, 2, 2}),
        str("[max_pool2d_backward] index ", outside, ", expected 0 to 3").c_str(), Error);
  CHECK_THROWS_AS(max_pool2d_backward(ones({1, 1, 1, 1}), zeros({1, 1, 1, 1}), {1, 1, 2, 2}),
                  Error);
}
