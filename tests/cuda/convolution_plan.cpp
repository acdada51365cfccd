// The products that CUDA's convolution kernels compute by tiles, here element by element on the
// host. They equal the CPU's convolution and gradients exactly, as all sums here are of small
// integers.
#include "ringlet/cuda/convolution_plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ringlet/cuda/convolution_tile.h"

namespace ringlet::cuda {
namespace {

Tensor small_integers(const Shape& shape, std::int64_t salt) {
  Tensor x = empty(shape, DType::f64);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.mutable_data<double>()[i] = static_cast<double>((i * 7 + salt * i * i) % 11 - 5);
  return x;
}

// The product, writing each element of c once; in pieces of the inner dimension as in a launch.
template <class Product>
Tensor product_of(const Product& p, const Tensor& a, const Tensor& b, const Shape& shape,
                  const ConvSplit& split) {
  Tensor c = zeros(shape, DType::f64);
  std::vector<int> written(static_cast<std::size_t>(c.numel()));
  REQUIRE(p.rows() * p.columns() == c.numel());
  for (std::int64_t m = 0; m < p.rows(); ++m)
    for (std::int64_t n = 0; n < p.columns(); ++n) {
      const auto column = p.column(n);
      const std::int64_t at = p.c(m, n, column);
      ++written[static_cast<std::size_t>(at)];
      for (std::int64_t piece = 0; piece < split.count; ++piece)
        for (std::int64_t k = piece * split.length;
             k < std::min(p.inner(), (piece + 1) * split.length); ++k) {
          const auto inner = p.inner_at(k);
          const std::int64_t from = p.b(inner, column);
          if (from < 0 && Product::kSkips) continue;
          REQUIRE(from < b.numel());
          c.mutable_data<double>()[at] +=
              a.data<double>()[p.a(m, k, inner)] * (from < 0 ? 0 : b.data<double>()[from]);
        }
    }
  for (int times : written) CHECK(times == 1);
  return c;
}

void check_equal(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double left = a.data<double>()[i], right = b.data<double>()[i];
    CHECK((left == right || (std::isnan(left) && std::isnan(right))));
  }
}

void check_products(const Shape& x_shape, const Shape& weight_shape, const Conv2dOptions& options,
                    bool infinite = false) {
  const Tensor x = small_integers(x_shape, 1);
  Tensor weight = small_integers(weight_shape, 2);
  if (infinite) weight.mutable_data<double>()[1] = std::numeric_limits<double>::infinity();
  const Tensor y = conv2d(x, weight, {}, options), grad = small_integers(y.shape(), 3);
  const Conv2dPlan plan({x.size(0), x.size(1), x.size(2), x.size(3), weight.size(0), weight.size(2),
                         weight.size(3), y.size(2), y.size(3), options.stride, options.padding});
  const ForwardProduct forward{plan};
  check_equal(product_of(forward, weight, x, y.shape(), {1, forward.inner()}), y);

  const InputGradientProduct input{plan};
  check_equal(product_of(input, weight, grad, x_shape, {1, input.inner()}),
              conv2d_backward_input(grad, weight, x_shape, options));

  Tensor expected = zeros(weight_shape, DType::f64);
  conv2d_backward_weight({expected, 0}, grad, x, options);
  const WeightGradientProduct of_weight{plan};
  for (const ConvSplit& split :
       {split_inner(of_weight.rows(), of_weight.columns(), of_weight.inner()), ConvSplit{5, 16}}) {
    if (split.count * split.length < of_weight.inner()) continue;
    check_equal(product_of(of_weight, grad, x, weight_shape, split), expected);
  }
}

TEST_CASE("cuda convolution: the products are the convolution and its gradients") {
  check_products({2, 1, 6, 6}, {3, 1, 3, 3}, {});
  check_products({1, 2, 5, 7}, {4, 2, 2, 3}, {1, 2});
  check_products({2, 3, 8, 9}, {2, 3, 3, 2}, {2, 1});
  check_products({1, 1, 9, 4}, {1, 1, 4, 1}, {3, 0});
  check_products({1, 2, 3, 3}, {2, 2, 5, 5}, {1, 1});
}

TEST_CASE("cuda convolution: an infinite weight spreads as far as on the CPU") {
  check_products({1, 2, 5, 5}, {2, 2, 3, 3}, {1, 1}, true);
  check_products({2, 1, 7, 6}, {3, 1, 3, 2}, {2, 0}, true);
  check_products({1, 1, 9, 4}, {1, 1, 4, 1}, {3, 0}, true);
}

template <bool kAlongInner>
void check_tile_loads() {
  std::vector<int> loaded(kConvDepth * kConvTile);
  for (int thread = 0; thread < kConvThreads; ++thread)
    for (int r = 0; r < kConvLoads; ++r) {
      const int k = ConvLoad<kAlongInner>::k(thread, r);
      const int other = ConvLoad<kAlongInner>::other(thread, r);
      REQUIRE((0 <= k && k < kConvDepth && 0 <= other && other < kConvTile));
      ++loaded[static_cast<std::size_t>(k * kConvTile + other)];
    }
  for (int times : loaded) CHECK(times == 1);
}

TEST_CASE("cuda convolution: a tile is loaded once, and pieces cover the inner dimension") {
  check_tile_loads<true>();
  check_tile_loads<false>();
  for (std::int64_t inner : {1, 16, 511, 1024, 86528, 73728})
    for (std::int64_t columns : {9, 288, 40000}) {
      const ConvSplit split = split_inner(64, columns, inner);
      CHECK(split.length % kConvDepth == 0);
      CHECK(split.count * split.length >= inner);
      CHECK((split.count - 1) * split.length < inner);
      CHECK(split.count * conv_tiles(64, columns) <=
            std::max<std::int64_t>(528, conv_tiles(64, columns)));
    }
}

}  // namespace
}  // namespace ringlet::cuda
