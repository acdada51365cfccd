#include "ringlet/core/ops/convolution.h"

#include "../oracle.h"

using namespace ringlet;

namespace {

/// Small integers, so that any order of sums gives the same bits.
Tensor integers(const Shape& shape, int seed, DType dtype = DType::f32) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  auto state = static_cast<std::uint32_t>(seed);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 29) - 3;
  }
  return tensor(values, shape).to(dtype);
}

/// The definition, one product at a time.
std::vector<double> direct(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Conv2dOptions& o, const Shape& y) {
  const auto xs = x.to_vector<double>(), ws = weight.to_vector<double>(),
             bs = bias.to_vector<double>();
  std::vector<double> out;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t c = 0; c < y[1]; ++c)
      for (std::int64_t oy = 0; oy < y[2]; ++oy)
        for (std::int64_t ox = 0; ox < y[3]; ++ox) {
          double total = bs[static_cast<std::size_t>(c)];
          for (std::int64_t k = 0; k < weight.numel() / y[1]; ++k) {
            const std::int64_t channel = k / (weight.size(2) * weight.size(3));
            const std::int64_t row =
                oy * o.stride - o.padding + k / weight.size(3) % weight.size(2);
            const std::int64_t column = ox * o.stride - o.padding + k % weight.size(3);
            if (row < 0 || row >= x.size(2) || column < 0 || column >= x.size(3)) continue;
            const std::int64_t at = ((n * x.size(1) + channel) * x.size(2) + row) * x.size(3);
            total += xs[static_cast<std::size_t>(at + column)] *
                     ws[static_cast<std::size_t>(c * (weight.numel() / y[1]) + k)];
          }
          out.push_back(total);
        }
  return out;
}

double dot(const Tensor& a, const Tensor& b) {
  const auto as = a.to_vector<double>(), bs = b.to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < as.size(); ++i) total += as[i] * bs[i];
  return total;
}

}  // namespace

TEST_CASE("conv2d equals its definition exactly on small integers") {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const Conv2dOptions& options :
         {Conv2dOptions{}, Conv2dOptions{1, 2}, Conv2dOptions{2, 1}, Conv2dOptions{3, 0}})
      for (const Shape& kernel : {Shape{5, 3, 1, 1}, Shape{17, 3, 3, 2}, Shape{2, 3, 5, 7}}) {
        CAPTURE(kernel);
        const Tensor x = integers({2, 3, 9, 21}, 1, dtype);
        const Tensor weight = integers(kernel, 2, parameter_dtype(dtype));
        const Tensor bias = integers({kernel[0]}, 3, parameter_dtype(dtype));
        const Tensor y = conv2d(x, weight, bias, options);
        const Tensor expected =
            tensor(direct(x, weight, bias, options, y.shape()), y.shape()).to(dtype);
        CHECK(y.to_vector<double>() == expected.to_vector<double>());
      }
}

TEST_CASE("the gradients are the transposes: <grad, conv(x)> = <conv'(grad), x>") {
  struct Case {
    Shape x, weight;
    Conv2dOptions options;
  };
  // The last is processed in several strips: 64 * 9 * 600 elements per row.
  for (const Case& c : {Case{{3, 4, 8, 11}, {6, 4, 3, 3}, {1, 1}},
                        {{3, 4, 8, 11}, {6, 4, 3, 3}, {2, 2}},
                        {{1, 64, 5, 602}, {2, 64, 3, 3}, {}}}) {
    const Tensor x = integers(c.x, 1), weight = integers(c.weight, 2);
    const Tensor y = conv2d(x, weight, {}, c.options), grad = integers(y.shape(), 3);
    const Tensor no_bias = zeros({weight.size(0)});
    CHECK(y.to_vector<double>() == direct(x, weight, no_bias, c.options, y.shape()));
    CHECK(dot(grad, y) == dot(conv2d_backward_input(grad, weight, x.shape(), c.options), x));
    Tensor grad_weight = integers(weight.shape(), 4), grad_bias = empty({weight.size(0)});
    const double before = dot(grad_weight, weight);
    conv2d_backward_weight({grad_weight, 1}, grad, x, c.options);
    CHECK(dot(grad, y) + before == dot(grad_weight, weight));
    conv2d_backward_bias({grad_bias, 0}, grad);
    CHECK(dot(grad_bias, ones({weight.size(0)})) == dot(grad, ones(grad.shape())));
  }
  CHECK(conv2d(empty({0, 1, 3, 3}), ones({1, 1, 2, 2}), {}).shape() == Shape{0, 1, 2, 2});
}

TEST_CASE("an infinite weight spreads on every device as far as on the CPU") {
  for (const Conv2dOptions& options : {Conv2dOptions{1, 1}, Conv2dOptions{2, 0}}) {
    std::vector<float> values(36, 1);
    values[1] = INFINITY;
    const Tensor x = integers({2, 2, 7, 5}, 1), weight = tensor(values, {2, 2, 3, 3});
    const auto results = [&](Device device) {
      const Tensor y = conv2d(x.to(device), weight.to(device), {}, options);
      const Tensor grad = ones(y.shape(), DType::f32, device);
      return std::pair(y, conv2d_backward_input(grad, weight.to(device), x.shape(), options));
    };
    const auto [y, grad_x] = results(default_device());
    const auto [y_cpu, grad_x_cpu] = results(Device{});
    check_close(y, y_cpu, 0);
    check_close(grad_x, grad_x_cpu, 0);
  }
}

TEST_CASE("bad arguments of conv2d") {
  const Tensor x = zeros({1, 2, 3, 3});
  CHECK_THROWS_WITH(conv2d(x, zeros({1, 2, 4, 4}), {}),
                    "[conv2d] kernel (1, 2, 4, 4) on (1, 2, 3, 3) with padding 0");
  CHECK_THROWS_AS(conv2d(x, zeros({1, 3, 2, 2}), {}), Error);
  CHECK_THROWS_AS(conv2d(zeros({1, 0, 3, 3}), zeros({1, 0, 2, 2}), {}), Error);
  CHECK_THROWS_AS(conv2d(x, zeros({1, 2, 2, 2}), zeros({2})), Error);
  CHECK_THROWS_AS(conv2d(x, zeros({1, 2, 2, 2}), {}, {.stride = 0}), Error);
  CHECK_THROWS_AS(conv2d(x, zeros({1, 2, 2, 2}, DType::f64), {}), Error);
}

TEST_CASE("the weight's gradient takes grad and x of one device") {
  const Tensor x = ones({1, 1, 3, 3}).to(Device{}), grad = ones({1, 1, 2, 2}).to(Device{});
  Tensor out = zeros({1, 1, 2, 2}).to(Device{});
  conv2d_backward_weight({out, 0}, grad, x, {});
  CHECK(out.to_vector() == std::vector<float>(4, 4));
  CHECK_THROWS_AS(conv2d_backward_weight({out, 0}, grad.to(Device::parse("cpu:1")), x, {}), Error);
}
