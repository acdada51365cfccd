#include "ringlet/core/ops/topk.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../oracle.h"
#include "ringlet/core/ops/index.h"

using namespace ringlet;

using Ints = std::vector<std::int64_t>;

TEST_CASE("argmax and argmin: the first of equal elements, NaN above all") {
  const Tensor x = tensor<float>({1, 3, 3, 2, 2, -1}, {2, 3});
  CHECK(argmax(x, 1).to_vector<std::int64_t>() == Ints{1, 0});
  CHECK(argmax(x, 0).to_vector<std::int64_t>() == Ints{1, 0, 0});
  CHECK(argmin(x, -1).to_vector<std::int64_t>() == Ints{0, 2});
  CHECK(argmax(x, 1, true).shape() == Shape{2, 1});
  const Tensor nan = tensor({1.f, NAN, INFINITY, NAN});
  CHECK(argmax(nan, 0).item<std::int64_t>() == 1);
  CHECK(argmin(nan, 0).item<std::int64_t>() == 1);
  CHECK(argmax(empty({0, 3}), 1).shape() == Shape{0});
  CHECK_THROWS_WITH(argmax(empty({0, 3}), 0), "[argmax] no elements along axis 0 of (0, 3)");
}

TEST_CASE("topk sorts downwards and keeps the order of equal elements") {
  const TopK top = topk(tensor({2.f, 5.f, 2.f, 7.f, 5.f}), 4);
  CHECK(top.values.to_vector() == std::vector<float>{7, 5, 5, 2});
  CHECK(top.indices.to_vector<std::int64_t>() == Ints{3, 1, 4, 0});
  const Tensor odd = tensor<float>({1, NAN, 3, INFINITY, NAN, -INFINITY, 3, 0, -0.f});
  CHECK(topk(odd, 9).indices.to_vector<std::int64_t>() == Ints{1, 4, 3, 2, 6, 0, 7, 8, 5});
  CHECK(topk(empty({3, 0}), 0).values.shape() == Shape{3, 0});
  CHECK(topk(empty({0, 3}), 2).values.shape() == Shape{0, 2});
  CHECK_THROWS_AS(topk(zeros({3}), 4), Error);
}

TEST_CASE("topk is the head of a stable sort, along any axis") {
  std::vector<double> values(7 * 41 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 29);
  const Tensor x = tensor(values, {7, 41, 3});
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (std::int64_t k : {1, 2, 17, 41}) {
      const Tensor indices = topk(x.to(dtype), k, 1).indices;
      const Ints got = permute(indices, {0, 2, 1}).to_vector<std::int64_t>();
      Ints expected;
      for (std::int64_t line = 0; line < 21; ++line) {
        Ints order(41);
        std::iota(order.begin(), order.end(), 0);
        const auto value = [&](std::int64_t j) {
          return values[static_cast<std::size_t>((line / 3 * 41 + j) * 3 + line % 3)];
        };
        std::stable_sort(order.begin(), order.end(),
                         [&](std::int64_t a, std::int64_t b) { return value(a) > value(b); });
        expected.insert(expected.end(), order.begin(), order.begin() + k);
      }
      CHECK(got == expected);
    }
  }
}

TEST_CASE("topk of lines that a block of a GPU shares") {
  const std::int64_t n = 5003;
  std::vector<float> values(static_cast<std::size_t>(3 * n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 1013);
  const TopK top = topk(tensor(values, {3, n}), 4);
  for (std::int64_t line = 0; line < 3; ++line) {
    const auto begin = values.begin() + line * n;
    Ints order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return begin[a] > begin[b]; });
    order.resize(4);
    CHECK(narrow(top.indices, 0, line, 1).to_vector<std::int64_t>() == order);
  }
}

TEST_CASE("argmax and topk equal PyTorch") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("argmax"))
    check_close(argmax(ops.tensor(c + "/x"), static_cast<int>(ops.scalar(c + "/axis"))),
                ops.tensor(c + "/y"), 0, c);
  for (const std::string& c : ops.cases("topk")) {
    const TopK top = topk(ops.tensor(c + "/x"), static_cast<std::int64_t>(ops.scalar(c + "/k")));
    check_close(top.values, ops.tensor(c + "/values"), 0, c);
    check_close(top.indices, ops.tensor(c + "/indices"), 0, c);
  }
}
