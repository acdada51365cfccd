#include "ringlet/core/ops/combine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace ringlet;

namespace {

const std::vector<DType> kAll = {DType::f32, DType::f64, DType::bf16, DType::f16,
                                 DType::i32, DType::i64, DType::u8};

/// Source k of n elements: small numbers with the same sum in every order.
Tensor source(int k, std::int64_t n, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((static_cast<int>(i) * 7 + k * 5) % 11);
  return tensor(values, {n}).to(dtype);
}

}  // namespace

TEST_CASE("every dtype, any number of sources, any length") {
  for (const DType dtype : kAll)
    for (const int sources : {1, 2, 3, 5})
      for (const std::int64_t n : {0, 1, 15, 16, 17, 63, 64, 65, 1000}) {
        CAPTURE(dtype);
        CAPTURE(n);
        std::vector<Tensor> inputs;
        for (int k = 0; k < sources; ++k) inputs.push_back(source(k, n, dtype));
        Tensor sum = empty({n}, dtype), max = empty({n}, dtype);
        combine(sum, inputs);
        combine(max, inputs, CombineOp::max);
        for (std::int64_t i = 0; i < n; ++i) {
          double total = 0, largest = 0;
          for (const Tensor& input : inputs) {
            total += input[i].item<double>();
            largest = std::max(largest, input[i].item<double>());
          }
          REQUIRE(sum[i].item<double>() == total);
          REQUIRE(max[i].item<double>() == largest);
        }
      }
}

TEST_CASE("an element's bits do not depend on its position, and out may be a source") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    std::vector<double> a(200), b(200);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = std::sin(static_cast<double>(i));
      b[i] = std::cos(static_cast<double>(i)) * 100;
    }
    const Tensor x = tensor(a, {200}).to(dtype), y = tensor(b, {200}).to(dtype);
    Tensor whole = x.clone();
    combine(whole, std::vector{whole, y, x}, CombineOp::sum, 0.3);
    for (std::int64_t i = 0; i < 200; ++i) {
      Tensor one = empty({1}, dtype);
      combine(one, std::vector{x.slice(i, i + 1), y.slice(i, i + 1), x.slice(i, i + 1)},
              CombineOp::sum, 0.3);
      const Tensor got = one.to(Device{}), expected = whole[i].to(Device{});
      REQUIRE(std::memcmp(got.bytes(), expected.bytes(), itemsize(dtype)) == 0);
    }
  }
}

TEST_CASE("sources are added by the tree over them") {
  // Every order of these gives different bits.
  const auto value = [](int k) {
    return static_cast<float>(std::ldexp(1.0 + 0.37 * k, k * 7 % 24));
  };
  const auto sum = [&](const auto& self, int begin, int end) -> float {
    if (begin + 1 == end) return value(begin);
    int half = 1;
    while (2 * half < end - begin) half *= 2;
    return self(self, begin, begin + half) + self(self, begin + half, end);
  };
  for (const std::int64_t n : {1, 17, 64})
    for (int count = 1; count <= 140; count += count < 34 ? 1 : 15) {
      CAPTURE(count);
      std::vector<Tensor> sources;
      for (int k = 0; k < count; ++k) sources.push_back(full({n}, value(k)));
      Tensor out = empty({n});
      combine(out, sources);
      for (const float got : out.to_vector()) REQUIRE(got == sum(sum, 0, count));
    }
}

TEST_CASE("bf16 and f16 are added in f32 and rounded once") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    // If the sum were rounded after each, the small addends would be lost.
    std::vector<Tensor> inputs{full({3}, 1, dtype)};
    for (int k = 0; k < 64; ++k) inputs.push_back(full({3}, std::ldexp(1, -12), dtype));
    Tensor out = empty({3}, dtype);
    combine(out, inputs);
    CHECK(out[1].item<double>() == 1 + std::ldexp(1, -6));
  }
}

TEST_CASE("f16 rounds to nearest even, overflows to infinity and keeps NaN") {
  const auto half = [](double a, double b) {
    Tensor out = empty({1}, DType::f16);
    combine(out, std::vector{full({1}, a, DType::f16), full({1}, b, DType::f16)});
    return out.item<double>();
  };
  CHECK(half(2048, 1) == 2048);
  CHECK(half(2048, 3) == 2052);
  CHECK(half(65504, 65504) == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(half(NAN, 1)));
  CHECK(half(std::ldexp(1, -24), std::ldexp(1, -24)) == std::ldexp(1, -23));
}

TEST_CASE("NaN is the largest; integers wrap around") {
  const Tensor x = tensor<float>({1, NAN, 3}), y = tensor<float>({2, 5, NAN});
  Tensor out = empty({3});
  combine(out, std::vector{x, y}, CombineOp::max);
  CHECK(out[0].item() == 2);
  CHECK(std::isnan(out[1].item()));
  CHECK(std::isnan(out[2].item()));

  const Tensor top = tensor<std::int32_t>({std::numeric_limits<std::int32_t>::max()});
  Tensor sum = empty({1}, DType::i32);
  combine(sum, std::vector{top, tensor<std::int32_t>({1})});
  CHECK(sum.item<std::int32_t>() == std::numeric_limits<std::int32_t>::min());
}

TEST_CASE("combine refuses bad arguments") {
  Tensor out = empty({2}), whole = empty({2}, DType::i32);
  CHECK_THROWS_WITH_AS(combine(out, {}), "[combine] of nothing", Error);
  CHECK_THROWS_AS(combine(out, std::vector{zeros({3})}), Error);
  CHECK_THROWS_AS(combine(out, std::vector{whole}), Error);
  CHECK_THROWS_WITH_AS(combine(whole, std::vector{whole}, CombineOp::sum, 0.5),
                       "[combine] i32 tensors take no scale", Error);
}
