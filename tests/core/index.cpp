#include "ringlet/core/ops/index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "../device.h"
#include "../oracle.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/reduce.h"
#include "threads.h"

using namespace ringlet;

namespace {

Tensor counted(Shape shape, DType dtype = DType::f32) {
  return arange(0, static_cast<double>(shape.numel()), 1, dtype).view(shape);
}

/// The definition of permute, element by element.
std::vector<double> permuted(const Tensor& x, const std::vector<int>& axes) {
  const std::vector<double> values = x.to_vector<double>();
  std::vector<std::size_t> strides(axes.size(), 1);
  for (std::size_t i = axes.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * static_cast<std::size_t>(x.size(static_cast<int>(i) + 1));
  std::vector<double> out(values.size());
  for (std::size_t n = 0; n < out.size(); ++n) {
    std::size_t rest = n, from = 0;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(x.size(axes[i]));
      from += rest % size * strides[static_cast<std::size_t>(axes[i])];
      rest /= size;
    }
    out[n] = values[from];
  }
  return out;
}

}  // namespace

TEST_CASE("concat, stack and split") {
  const Tensor a = tensor<float>({1, 2, 3, 4}, {2, 2}), b = tensor<float>({5, 6}, {2, 1});
  CHECK(concat({a, b}, 1).to_vector() == std::vector<float>{1, 2, 5, 3, 4, 6});
  CHECK(concat({a, a}, 0).shape() == Shape{4, 2});
  CHECK(concat({a, empty({2, 0})}, -1).to_vector() == a.to_vector());
  CHECK(stack({b, b}, -1).shape() == Shape{2, 1, 2});
  const std::vector<Tensor> parts = split(concat({a, b}, 1), {2, 1}, 1);
  CHECK(parts[0].to_vector() == a.to_vector());
  CHECK(parts[1].to_vector() == b.to_vector());

  CHECK_THROWS_WITH(concat({a, b}, 0), "[concat] (2, 1) to (2, 2) along axis 0");
  CHECK_THROWS_AS(concat({a, b.to(DType::f64)}, 1), Error);
  CHECK_THROWS_AS(concat({}, 0), Error);
  CHECK_THROWS_AS(stack({a, b}, 0), Error);
  CHECK_THROWS_AS(split(a, {1, 2}, 0), Error);
}

TEST_CASE("narrow, write_narrow and pad") {
  Tensor x = counted({2, 4}, DType::i32);
  CHECK(narrow(x, 1, 1, 2).to_vector<int>() == std::vector<int>{1, 2, 5, 6});
  CHECK(narrow(x, 0, 2, 0).shape() == Shape{0, 4});
  CHECK(pad(narrow(x, 1, 3, 1), 1, 1, 2).to_vector<int>() ==
        std::vector<int>{0, 3, 0, 0, 0, 7, 0, 0});
  write_narrow(x, 1, 2, full({2, 1}, 9, DType::i32));
  CHECK(x.to_vector<int>() == std::vector<int>{0, 1, 9, 3, 4, 5, 9, 7});
  CHECK_THROWS_WITH(narrow(x, 1, 3, 2), "[narrow] [3, 5) of axis 1 of shape (2, 4)");
  CHECK_THROWS_AS(write_narrow(x, 1, 4, zeros({2, 1}, DType::i32)), Error);
}

TEST_CASE("permute follows its definition for every order of odd sizes") {
  std::vector<int> axes{0, 1, 2, 3};
  do {
    for (const Shape& shape : {Shape{3, 5, 2, 7}, Shape{1, 33, 1, 65}, Shape{2, 1, 70, 3}}) {
      const Tensor x = counted(shape);
      CAPTURE(shape);
      CHECK(permute(x, axes).to_vector<double>() == permuted(x, axes));
    }
  } while (std::next_permutation(axes.begin(), axes.end()));
  for (DType dtype : {DType::u8, DType::bf16, DType::i32, DType::f64}) {
    const Tensor x = counted({11, 23}, dtype);
    CHECK(transpose(x).to_vector<double>() == permuted(x, {1, 0}));
  }
  CHECK(transpose(empty({0, 3})).shape() == Shape{3, 0});
  // More tiles than a grid has blocks: a block uses its tile again.
  const Tensor many = counted({4100, 3, 5});
  CHECK(permute(many, {0, 2, 1}).to_vector<double>() == permuted(many, {0, 2, 1}));
  CHECK(permute(tensor<float>({2}, {}), {}).item() == 2);
  CHECK_THROWS_AS(permute(counted({2, 2}), {0, 0}), Error);
  CHECK_THROWS_AS(permute(counted({2, 2}), {0}), Error);
}

TEST_CASE("index_select copies rows") {
  const Tensor x = counted({3, 2});
  for (DType dtype : {DType::i32, DType::i64}) {
    const Tensor index = tensor<std::int64_t>({2, 0, 2}, {3}).to(dtype);
    CHECK(index_select(x, 0, index).to_vector() == std::vector<float>{4, 5, 0, 1, 4, 5});
  }
  CHECK(index_select(x, 0, empty({0}, DType::i32)).shape() == Shape{0, 2});
  CHECK_THROWS_AS(index_select(x, 0, tensor<float>({0})), Error);
}

TEST_CASE("argsort keeps the order of equal elements, and NaN is the largest") {
  using Ints = std::vector<int>;
  const Tensor x = tensor({1.f, NAN, -0.f, INFINITY, 0.f, NAN});
  CHECK(argsort(x).to_vector<int>() == Ints{2, 4, 0, 3, 1, 5});
  CHECK(argsort(x, 0, /*descending=*/true).to_vector<int>() == Ints{1, 5, 3, 0, 2, 4});
  const Tensor large = tensor<std::int64_t>({(1ll << 53) + 1, 1ll << 53});  // equal as f64
  CHECK(argsort(large).to_vector<int>() == Ints{1, 0});
  CHECK(argsort(x.to(DType::bf16).view({3, 2}), 0).to_vector<int>() == Ints{1, 1, 2, 0, 0, 2});
  CHECK(argsort(empty({0, 3}), 0).shape() == Shape{0, 3});
}

TEST_CASE("one_hot and lower_triangle") {
  const Oracle ops("ops");
  for (const DType dtype : {DType::i32, DType::i64})
    CHECK(one_hot(ops.tensor("one_hot.ids/ids", dtype), 6).to_vector<int>() ==
          ops.tensor("one_hot.ids/y").to_vector<int>());
  CHECK(sum(one_hot(tensor<std::int64_t>({-1, 2}), 2).to(DType::f32)).item() == 0);
  CHECK(lower_triangle(2, 3).to_vector<int>() == std::vector<int>{1, 0, 0, 1, 1, 0});
  CHECK(lower_triangle(2, 3, -1).to_vector<int>() == std::vector<int>{0, 0, 0, 1, 0, 0});
}

TEST_CASE("sums go in the order of the index, the same on any number of threads") {
  // 1e8 + 1 - 1e8 is 0 in f32, 1e8 - 1e8 + 1 is 1: the result shows the order.
  Tensor out = zeros({2, 1});
  index_add_(out, 0, tensor<std::int64_t>({0, 1, 0, 1, 0, 1}, {6}),
             tensor<float>({1e8f, 1e8f, 1, -1e8f, -1e8f, 1}, {6, 1}));
  CHECK(out.to_vector() == std::vector<float>{0, 1});

  const Tensor rows = counted({500, 301});
  const Tensor target = tensor<std::int32_t>(std::vector<std::int32_t>(500, 3), {500});
  on_any_threads([&] {
    Tensor sums = zeros({7, 301});
    index_add_(sums, 0, target, rows);
    return sums.to_vector();
  });
}

TEST_CASE("scatter_add follows its definition on every axis") {
  const Shape shape{4, 5, 3};
  for (const DType dtype : {DType::f32, DType::f64})
    for (int axis = 0; axis < 3; ++axis) {
      // The size of x, then shorter along every axis.
      for (const Shape& part : {shape, Shape{2, 3, 2}}) {
        CAPTURE(axis);
        CAPTURE(part);
        std::vector<std::int64_t> index;
        for (std::int64_t i = 0; i < part.numel(); ++i) index.push_back(i * 7 % shape[axis]);
        const Tensor source = add(counted(part, dtype), full({}, 100, dtype));
        const Tensor x = counted(shape, dtype);

        std::vector<double> expected = x.to_vector<double>();
        const std::vector<double> values = source.to_vector<double>();
        for (std::int64_t i = 0, n = 0; i < part[0]; ++i)
          for (std::int64_t j = 0; j < part[1]; ++j)
            for (std::int64_t k = 0; k < part[2]; ++k, ++n) {
              std::int64_t at[]{i, j, k};
              at[axis] = index[static_cast<std::size_t>(n)];
              expected[static_cast<std::size_t>((at[0] * shape[1] + at[1]) * shape[2] + at[2])] +=
                  values[static_cast<std::size_t>(n)];
            }
        for (const DType of_index : {DType::i32, DType::i64})
          CHECK(scatter_add(x, axis, tensor<std::int64_t>(index, part).to(of_index), source)
                    .to_vector<double>() == expected);
        CHECK(x.to_vector<double>() == counted(shape, dtype).to_vector<double>());
      }
    }
  Tensor x = counted({3, 2});
  CHECK_THROWS_AS(scatter_add_(x, 0, tensor<std::int64_t>({0, 1}, {1, 2}), zeros({2, 2})), Error);
  scatter_add_(x, 1, empty({0, 2}, DType::i64), empty({0, 2}));
  CHECK(x.to_vector() == counted({3, 2}).to_vector());
}

TEST_CASE_FIXTURE(OnCpu, "a bad index is named, and nothing is written") {
  const Tensor x = counted({3, 2});
  CHECK_THROWS_WITH(index_select(x, 0, tensor<std::int32_t>({0, 3}, {2})),
                    "[index_select] index 3 is out of range for size 3");
  CHECK_THROWS_WITH(index_select(x, 1, tensor<std::int64_t>({-1}, {1})),
                    "[index_select] index -1 is out of range for size 2");
  Tensor out = x.clone();
  CHECK_THROWS_WITH(index_add_(out, 0, tensor<std::int32_t>({0, 3}, {2}), ones({2, 2})),
                    "[index_add_] index 3 is out of range for size 3");
  CHECK_THROWS_WITH(scatter_add_(out, 0, tensor<std::int64_t>({1, 3}, {1, 2}), ones({1, 2})),
                    "[scatter_add_] index 3 is out of range for size 3");
  CHECK(out.to_vector() == x.to_vector());
}

TEST_CASE("on a GPU an index out of range gathers 0 and scatters nothing") {
  if (default_device().type != DeviceType::cuda) return;  // a CPU throws
  const Tensor x = counted({3, 2});
  const Tensor index = tensor<std::int64_t>({7, 1, -7, 2, 1, 3}, {3, 2});
  CHECK(gather(x, 0, index).to_vector() ==
        std::vector<float>{0, x[1].to_vector()[1], 0, x[2].to_vector()[1], x[1].to_vector()[0], 0});
  Tensor out = zeros({3, 2});
  scatter_add_(out, 0, index, ones({3, 2}));
  CHECK(out.to_vector() == std::vector<float>{0, 0, 1, 1, 0, 1});
  // The low bits of 5 and -7 are those of 1, and a sort by place looks at these alone.
  index_add_(out, 0, tensor<std::int64_t>({1, 5, 1, -7, 1}, {5}), ones({5, 2}));
  CHECK(out.to_vector() == std::vector<float>{0, 0, 4, 4, 0, 1});
}

TEST_CASE("sums and writes take a source that lies in what they change") {
  const Tensor rows = counted({6, 2});
  const Tensor index = tensor<std::int64_t>({1, 2, 3}, {3});
  const Tensor places = tensor<std::int64_t>({1, 1, 2, 2, 3, 3}, {3, 2});
  const std::function<void(Tensor&, const Tensor&)> writes[] = {
      [&](Tensor& out, const Tensor& source) { index_add_(out, 0, index, source); },
      [&](Tensor& out, const Tensor& source) { scatter_add_(out, 0, places, source); }};
  for (const auto& write : writes) {
    Tensor out = rows.clone(), expected = rows.clone();
    write(expected, rows.slice(0, 3));
    write(out, out.slice(0, 3));
    CHECK(out.to_vector() == expected.to_vector());
  }
}
