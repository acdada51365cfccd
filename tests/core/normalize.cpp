#include "ringlet/core/ops/normalize.h"

#include <doctest/doctest.h>

#include "ringlet/core/ops/cosine_similarity.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;

TEST_CASE("normalize gives rows length 1, and leaves a zero row at zero") {
  const Tensor x = tensor({3.f, 4.f, 0.f, 0.f}).view({2, 2});
  const auto [y, norm] = normalize(x);
  CHECK(y.to_vector() == std::vector<float>{0.6f, 0.8f, 0, 0});
  CHECK(norm.to_vector() == std::vector<float>{5, 0});
  CHECK(normalize(zeros({0, 4})).y.shape() == Shape{0, 4});
  CHECK_THROWS_AS(normalize(zeros({2, 0})), Error);
}

TEST_CASE("cosine_similarity of rows: alike, opposite, across, zero") {
  const Tensor a = tensor({1.f, 2.f, 1.f, 2.f, 1.f, 0.f, 0.f, 0.f}).view({4, 2});
  const Tensor b = tensor({2.f, 4.f, -1.f, -2.f, 0.f, 3.f, 1.f, 1.f}).view({4, 2});
  const std::vector<float> y = cosine_similarity(a, b).to_vector();
  CHECK(y[0] == doctest::Approx(1));
  CHECK(y[1] == doctest::Approx(-1));
  CHECK(y[2] == 0);
  CHECK(y[3] == 0);
  CHECK(cosine_similarity(zeros({0, 4}), zeros({0, 4})).shape() == Shape{0});
  CHECK_THROWS_AS(cosine_similarity(a, zeros({4, 3})), Error);
}

TEST_CASE("cosine_similarity has the gradients that are asked for") {
  const Tensor a = normal({3, 70}), b = normal({3, 70}), grad = ones({3});
  const auto both = cosine_similarity_backward(grad, a, b, kCosineEps, true, true);
  const auto one = cosine_similarity_backward(grad, a, b, kCosineEps, true, false);
  CHECK(one.a.to_vector() == both.a.to_vector());
  CHECK_FALSE(one.b.defined());
}

TEST_CASE("a row has the same bits whatever stands around it, in every width") {
  const GeneratorGuard guard({.seed = 1});
  for (std::int64_t columns : {1, 7, 16, 33, 64, 100, 384}) {
    const Tensor a = normal({5, columns}), b = normal({5, columns});
    CHECK(cosine_similarity(a.slice(3, 4), b.slice(3, 4)).item() ==
          cosine_similarity(a, b)[3].item());
    CHECK(normalize(a.slice(2, 3)).y.to_vector() == normalize(a).y[2].to_vector());
  }
}

TEST_CASE("normalize_backward takes tensors of one device, and a norm of the parameters' dtype") {
  const Tensor x = ones({2, 3}).to(Device{}), norm = ones({2}).to(Device{});
  CHECK_THROWS_AS(normalize_backward(x, x, norm.to(Device::parse("cpu:1")), 1e-12), Error);
  CHECK_THROWS_AS(normalize_backward(x, x, norm.to(DType::f64), 1e-12), Error);
  CHECK(normalize_backward(x, x, norm, 1e-12).shape() == x.shape());
}
