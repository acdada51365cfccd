#include "ringlet/core/ops/reduce.h"

#include <cmath>

#include "../oracle.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/index.h"
#include "threads.h"

using namespace ringlet;

namespace {

Tensor wave(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.37));
  return tensor(values, shape);
}

}  // namespace

TEST_CASE("NaN is the largest and the smallest element") {
  const Tensor x = tensor<float>({1, NAN, 3, 4}, {2, 2});
  CHECK(std::isnan(max(x, {1})[0].item()));
  CHECK(max(x, {1})[1].item() == 4);
  CHECK(std::isnan(min(x).item()));
  std::vector<float> long_row(100, 1);
  for (std::size_t at : {0u, 17u, 63u, 99u}) {
    long_row[at] = NAN;
    CHECK(std::isnan(max(tensor(long_row, {100})).item()));
    long_row[at] = 1;
  }
}

TEST_CASE("nothing to reduce") {
  CHECK(sum(empty({0, 3}), {0}).to_vector() == std::vector<float>{0, 0, 0});
  CHECK(sum(empty({3, 0}), {1}).to_vector() == std::vector<float>{0, 0, 0});
  CHECK(sum(empty({0, 3}), {1}).shape() == Shape{0});
  CHECK(max(empty({0, 3}), {1}).shape() == Shape{0});
  CHECK(std::isnan(mean(empty({0})).item()));
  for (const Tensor& nothing : {mean(empty({0, 3}), {0}), mean(empty({3, 0}), {1})}) {
    CHECK(nothing.shape() == Shape{3});
    for (const float value : nothing.to_vector()) CHECK(std::isnan(value));
  }
  CHECK_THROWS_AS(max(empty({0, 3}), {0}), Error);
  CHECK_THROWS_AS(sum(zeros({2}), {1}), Error);
}

TEST_CASE("a row's sum does not depend on its neighbours or on the threads") {
  for (std::int64_t n : {1, 15, 16, 17, 63, 64, 65, 1000}) {
    const Tensor x = wave({64, n});
    const std::vector<float> rows = sum(x, {1}).to_vector();
    for (std::int64_t r : {0, 31, 63}) CHECK(sum(x[r]).item() == rows[static_cast<std::size_t>(r)]);
    on_any_threads([&] { return std::pair(sum(x, {1}).to_vector(), sum(x, {0}).to_vector()); });
  }
}

TEST_CASE("columns in more tiles than a grid has blocks") {
  const Tensor x = arange(0, 4100 * 9 * 3, 1, DType::f32).view({4100, 9, 3});
  std::vector<float> expected(4100 * 3);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = static_cast<float>(9 * (27 * (i / 3) + i % 3) + 3 * 36);
  CHECK(reduce(ReduceOp::sum, x, {1}).to_vector() == expected);
}

TEST_CASE("argmax and argmin: the first of equal elements, NaN above all") {
  using Ints = std::vector<std::int64_t>;
  const Tensor x = tensor<float>({1, 3, 3, 2, 2, -1}, {2, 3});
  CHECK(argmax(x, 1).to_vector<std::int64_t>() == Ints{1, 0});
  CHECK(argmax(x, 0).to_vector<std::int64_t>() == Ints{1, 0, 0});
  CHECK(argmin(x, -1).to_vector<std::int64_t>() == Ints{0, 2});
  CHECK(argmax(x, 1, true).shape() == Shape{2, 1});
  CHECK(argmax(tensor({-0.f, 0.f}), 0).item<std::int64_t>() == 0);
  const Tensor nan = tensor({1.f, NAN, INFINITY, NAN});
  CHECK(argmax(nan, 0).item<std::int64_t>() == 1);
  CHECK(argmin(nan, 0).item<std::int64_t>() == 1);
  CHECK(argmax(empty({0, 3}), 1).shape() == Shape{0});
  CHECK_THROWS_WITH(argmax(empty({0, 3}), 0), "[argmax] no elements along axis 0 of (0, 3)");
}

TEST_CASE("argmax equals PyTorch, and is the first of topk") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("argmax"))
    check_close(argmax(ops.tensor(c + "/x"), static_cast<int>(ops.scalar(c + "/axis"))),
                ops.tensor(c + "/y"), 0, c);
  for (const std::string& c : ops.cases("topk"))
    check_close(argmax(ops.tensor(c + "/x"), -1, true), narrow(ops.tensor(c + "/indices"), 1, 0, 1),
                0, c);
}

TEST_CASE("cumsum from either end of any axis, also of bf16 and of nothing") {
  const Tensor x = arange(1, 13, 1, DType::f32).view({2, 3, 2});
  CHECK(cumsum(x, 1).to_vector() == std::vector<float>{1, 2, 4, 6, 9, 12, 7, 8, 16, 18, 27, 30});
  CHECK(cumsum(x, -2, /*reverse=*/true).to_vector() ==
        std::vector<float>{9, 12, 8, 10, 5, 6, 27, 30, 20, 22, 11, 12});
  // In bf16 alone 256 + 1 is 256.
  const Tensor steps = concat({full({1}, 256, DType::bf16), ones({2}, DType::bf16)}, 0);
  CHECK(cumsum(steps, 0).to_vector() == std::vector<float>{256, 256, 258});
  CHECK(cumsum(empty({2, 0}), 1).shape() == Shape{2, 0});
  const Tensor one = full({1}, 3);  // the result has its own memory
  cumsum(one, 0).fill_(0);
  CHECK_EQ(one.item(), 3);
}

TEST_CASE("sum_to undoes broadcasting") {
  const Tensor x = ones({2, 3, 4});
  CHECK(sum_to(x, {3, 1}).to_vector() == std::vector<float>{8, 8, 8});
  CHECK(sum_to(x, {}).item() == 24);
  CHECK_THROWS_AS(sum_to(x, {5}), Error);
}

TEST_CASE("a sum down columns of -0 is -0") {
  for (const std::int64_t n : {1, 3, 20, 600})
    for (const float value : sum(neg(zeros({n, 5})), {0}).to_vector()) CHECK(std::signbit(value));
}
