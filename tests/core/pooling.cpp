#include "ringlet/core/ops/pooling.h"

#include <doctest/doctest.h>

#include <limits>

#include "../device.h"

using namespace ringlet;

namespace {

Tensor id_tensor(const std::vector<std::int32_t>& ids) {
  return tensor(ids, {static_cast<std::int64_t>(ids.size())});
}

// Two sentences, of two tokens and one.
Tensor three_rows() { return tensor({1.f, 8.f, 3.f, 2.f, 5.f, 6.f}).view({3, 2}); }
Tensor cu_seqlens() { return id_tensor({0, 2, 3}); }

}  // namespace

TEST_CASE("a sentence is the mean, the first or the maximum of its tokens") {
  const auto pooled = [](PoolingMode mode, const Tensor& lengths = {}) {
    return pooling(mode, three_rows(), cu_seqlens(), lengths).y.to_vector();
  };
  CHECK(pooled(PoolingMode::mean) == std::vector<float>{2, 5, 5, 6});
  CHECK(pooled(PoolingMode::cls) == std::vector<float>{1, 8, 5, 6});
  CHECK(pooled(PoolingMode::max) == std::vector<float>{3, 8, 5, 6});
  for (PoolingMode mode : {PoolingMode::mean, PoolingMode::max})  // the second token is padding
    CHECK(pooled(mode, id_tensor({1, 1})) == std::vector<float>{1, 8, 5, 6});
  const Tensor bf16 = pooling(PoolingMode::mean, three_rows().to(DType::bf16), cu_seqlens()).y;
  CHECK(bf16.dtype() == DType::f32);
  CHECK(bf16.to_vector() == std::vector<float>{2, 5, 5, 6});
}

TEST_CASE("pooling columns of every width") {
  for (std::int64_t columns : {1, 15, 16, 17, 63, 64, 65, 200}) {
    std::vector<float> values, expected;
    for (std::int64_t i = 0; i < 4 * columns; ++i)
      values.push_back(static_cast<float>(i * 37 % 101));
    for (std::int64_t c = 0; c < columns; ++c)
      expected.push_back(values[static_cast<std::size_t>(c)] +
                         values[static_cast<std::size_t>(columns + c)] +
                         values[static_cast<std::size_t>(2 * columns + c)] +
                         values[static_cast<std::size_t>(3 * columns + c)]);
    const Tensor sums = tensor(expected, {1, columns});
    const Tensor y = pooling(PoolingMode::mean, tensor(values, {4, columns}), id_tensor({0, 4})).y;
    for (std::size_t c = 0; c < expected.size(); ++c) CHECK(4 * y.to_vector()[c] == expected[c]);
  }
}

TEST_CASE("the first of equal maxima counts, and NaN is the largest") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor({7.f, 1.f, 7.f, nan, 2.f, 3.f}).view({3, 2});
  const auto [y, argmax] = pooling(PoolingMode::max, x, id_tensor({0, 3}));
  CHECK(argmax.to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1});
  CHECK(y.to_vector()[1] != y.to_vector()[1]);
}

TEST_CASE("an empty sentence has mean 0, and there may be no sentence") {
  CHECK(pooling(PoolingMode::mean, ones({2, 3}), id_tensor({0, 0, 2})).y[0].to_vector() ==
        std::vector<float>{0, 0, 0});
  CHECK(pooling(PoolingMode::cls, zeros({0, 3}), id_tensor({0})).y.shape() == Shape{0, 3});
}

TEST_CASE("a GPU gives NaN for the first token and the maximum of an empty sentence") {
  if (default_device().type == DeviceType::cpu) return;
  for (PoolingMode mode : {PoolingMode::cls, PoolingMode::max}) {
    const Tensor at = id_tensor({0, 2, 2}), grad = ones({2, 3});
    const PoolingOutput out = pooling(mode, ones({2, 3}), at);
    const std::vector<float> y = out.y.to_vector();
    for (std::size_t i = 0; i < y.size(); ++i) CHECK((y[i] != y[i]) == (i >= 3));
    CHECK(pooling_backward(mode, grad, out.argmax, at, 2, DType::f32).to_vector() ==
          std::vector<float>{1, 1, 1, 0, 0, 0});
  }
}

TEST_CASE_FIXTURE(OnCpu, "an empty sentence has neither a first token nor a maximum") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH_AS(pooling(PoolingMode::max, x, id_tensor({0, 2, 2})),
                       "[pooling] sentence 1 is empty: it has no first token and no maximum",
                       Error);
  CHECK_THROWS_AS(pooling(PoolingMode::mean, x, id_tensor({0, 3})), Error);
}

TEST_CASE_FIXTURE(OnCpu, "the gradient of pooling writes no row that its forward did not read") {
  const Tensor grad = ones({2, 3}), none;
  const auto back = [&](PoolingMode mode, const Tensor& argmax, const Tensor& at,
                        const Tensor& lengths) {
    pooling_backward(mode, grad, argmax, at, 2, DType::f32, lengths);
  };
  const auto max_of = [&](std::vector<std::int32_t> tokens, const Tensor& lengths = {}) {
    back(PoolingMode::max, tensor(tokens, {2, 3}), id_tensor({0, 1, 2}), lengths);
  };
  CHECK_THROWS_WITH_AS(back(PoolingMode::cls, none, id_tensor({0, 2, 2}), none),
                       "[pooling] sentence 1 is empty: it has no first token and no maximum",
                       Error);
  for (PoolingMode mode : {PoolingMode::mean, PoolingMode::cls})
    CHECK_THROWS_WITH_AS(back(mode, none, id_tensor({0, 1, 2}), id_tensor({1, 2})),
                         "[pooling] 2 real tokens of 1 in sentence 1", Error);
  const Tensor elsewhere = id_tensor({1, 1}).to(Device::parse("cpu:1"));
  CHECK_THROWS_AS(back(PoolingMode::mean, none, id_tensor({0, 1, 2}), elsewhere), Error);
  CHECK_THROWS_AS(pooling(PoolingMode::mean, grad, id_tensor({0, 1, 2}), elsewhere), Error);
  max_of({0, 0, 0, 1, 1, 1});
  CHECK_THROWS_WITH_AS(
      max_of({0, 0, 0, 1, 2, 1}),
      "[pooling] the maximum of column 1 of sentence 1 is token 2, expected 1 to 1", Error);
  CHECK_THROWS_AS(max_of({0, -1, 0, 1, 1, 1}), Error);
  CHECK_THROWS_AS(back(PoolingMode::max, zeros({2, 3}, DType::i32, Device::parse("cpu:1")),
                       id_tensor({0, 1, 2}), none),
                  Error);
}
