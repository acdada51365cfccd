#include <cmath>
#include <vector>

#include "../oracle.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"

using namespace ringlet;
using Bytes = std::vector<std::uint8_t>;

namespace {

// DropoutKey's rule, element by element.
Bytes mask_by_rule(std::int64_t columns, const DropoutKey& key,
                   const std::vector<std::int32_t>& positions) {
  Bytes mask;
  const PhiloxKey derived = derive_key(key.seed, key.step, key.site);
  for (std::size_t row = 0; row < positions.size() / 2; ++row)
    for (std::uint32_t column = 0; column < columns; ++column) {
      const PhiloxBlock block =
          philox({{static_cast<std::uint32_t>(positions[2 * row]),
                   static_cast<std::uint32_t>(positions[2 * row + 1]), 0, column / 4}},
                 derived);
      mask.push_back(block.word[column % 4] >= key.p * 0x1p32);
    }
  return mask;
}

// Dropout's mask of (rows, columns): 1 if kept.
Tensor mask_of(std::int64_t rows, std::int64_t columns, const DropoutKey& key,
               const Tensor& positions = {}) {
  return sign(dropout(ones({rows, columns}), key, positions));
}

}  // namespace

TEST_CASE("a mask follows the counting rule whatever the width") {
  const DropoutKey key{.p = 0.3f, .seed = 1ull << 40, .step = 7, .site = 3};
  const std::vector<std::int32_t> positions{5, 0, 5, 1, 0x7fffffff, 511};
  for (std::int64_t columns : {1, 4, 15, 16, 17, 31, 32, 33, 64, 100, 128, 193}) {
    CAPTURE(columns);
    CHECK(mask_of(3, columns, key, tensor(positions, {3, 2})).to_vector<std::uint8_t>() ==
          mask_by_rule(columns, key, positions));
  }
}

TEST_CASE("dropout keeps x / (1 - p) under the mask and zero elsewhere, in every dtype") {
  const DropoutKey key{.p = 0.75f, .seed = 2};
  const Tensor mask = mask_of(5, 37, key);
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    CAPTURE(dtype);
    const Tensor x = add(uniform({5, 37}), scalar_like(1, zeros({}))).to(dtype);
    const Tensor expected = mul(scale(x, 4), mask.to(dtype));
    CHECK(dropout(x, key).to_vector() == expected.to_vector());
  }
  Tensor x = full({1, 4}, 1);
  CHECK(dropout(x, {.p = 0}).to_vector() == x.to_vector());
  CHECK(dropout(zeros({0, 4}), key).shape() == Shape{0, 4});
  CHECK(dropout(zeros({4, 0}), key).shape() == Shape{4, 0});
  CHECK_THROWS_WITH_AS(dropout(x, {.p = 1}), "[dropout] p is 1, expected 0 <= p < 1", Error);
  CHECK_THROWS_AS(dropout(x, key, zeros({2, 2}, DType::i32)), Error);
  CHECK_THROWS_AS(dropout(x, key, zeros({1, 2}, DType::i32, Device::parse("cpu:2"))), Error);
}

TEST_CASE("the share of kept elements is 1 - p") {
  // 5 standard deviations of a binomial share.
  constexpr double n = 1000 * 768;
  for (float p : {0.1f, 0.5f}) {
    const double kept = sum(mask_of(1000, 768, {.p = p, .seed = 4}).to(DType::f64)).item<double>();
    CHECK(std::abs(kept / n - (1 - p)) < 5 * std::sqrt(p * (1 - p) / n));
  }
}

TEST_CASE("uniform and normal have the moments they should") {
  const GeneratorGuard guard({.seed = 12});
  constexpr double n = 1 << 18;
  const Tensor u = uniform({1 << 18}, -1, 3, DType::f64);
  CHECK(min(u).item<double>() >= -1);
  CHECK(max(u).item<double>() < 3);
  CHECK(std::abs(mean(u).item<double>() - 1) < 5 * std::sqrt(16.0 / 12 / n));

  const Tensor x = normal({1 << 18}, 2, 0.5, DType::f64);
  const Tensor centred = sub(x, scalar_like(2, x));
  CHECK(std::abs(mean(centred).item<double>()) < 5 * 0.5 / std::sqrt(n));
  CHECK(std::abs(mean(square(centred)).item<double>() - 0.25) < 5 * 0.25 * std::sqrt(2 / n));
  // The fourth moment of a normal is 3 sigma^4, with variance 96 sigma^8.
  CHECK(std::abs(mean(square(square(centred))).item<double>() - 3 * 0.0625) <
        5 * 0.0625 * std::sqrt(96 / n));
}

TEST_CASE("draws are seeded, differ from call to call and are the same in every dtype") {
  RandomGenerator a{.seed = 1}, b{.seed = 1};
  const Tensor first = normal({7}, 0, 1, DType::f64, {}, a);
  CHECK(normal({7}, 0, 1, DType::f32, {}, b).to_vector() == first.to_vector());
  CHECK(normal({7}, 0, 1, DType::f64, {}, a).to_vector() != first.to_vector());
  a.set_step(0);
  CHECK(normal({3}, 0, 1, DType::bf16, {}, a).to_vector() ==
        first.slice(0, 3).to(DType::f32).to(DType::bf16).to_vector());
  CHECK(uniform({0}).numel() == 0);
  CHECK_THROWS_AS(uniform({2}, 0, 1, DType::i32), Error);
}

TEST_CASE("draws on every device are the CPU's, but for the last bits of sines and cosines") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto flat = [=](Device device) {
      RandomGenerator generator{5, 3, 1};
      return uniform({1003}, 0.1, 0.7, dtype, device, generator);
    };
    const auto bell = [=](Device device) {
      RandomGenerator generator{5, 3, 1};
      return normal({1003}, 0.5, 2, dtype, device, generator);
    };
    check_close(flat(default_device()), flat(Device{}), 0);
    check_close(bell(default_device()), bell(Device{}), dtype == DType::f32 ? 2 * kF32 : 8 * kF64);
  }
}
