#include "ringlet/core/ops/layer_norm.h"

#include <doctest/doctest.h>

#include "../oracle.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "threads.h"

using namespace ringlet;

namespace {

const DropoutKey kDrop{.p = 0.3f, .seed = 6, .step = 2, .site = 4};

// (rows, 2): two sentences, as in a packed batch.
Tensor positions_of(std::int32_t rows) {
  std::vector<std::int32_t> at;
  for (std::int32_t r = 0; r < rows; ++r) at.insert(at.end(), {r < 3 ? 8 : 21, r < 3 ? r : r - 3});
  return tensor(at, {rows, 2});
}

std::vector<double> doubles(const Tensor& x) { return x.to_vector<double>(); }

double largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(sub(a.to(DType::f64), b.to(DType::f64)))).item<double>();
}

// The definition in f64.
Tensor by_definition(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor centred = sub(x, mean(x, {-1}, true));
  const Tensor variance = mean(square(centred), {-1}, true);
  const Tensor rstd = rsqrt(add(variance, scalar_like(eps, x)));
  return add(mul(mul(centred, rstd), weight), bias);
}

}  // namespace

TEST_CASE("layer_norm equals its definition in every dtype and width") {
  const GeneratorGuard guard({.seed = 1});
  for (std::int64_t columns : {1, 3, 8, 16, 17, 63, 64, 65, 384, 768, 1000, 1024, 1500}) {
    CAPTURE(columns);
    const Tensor x = normal({5, columns}, 0.5, 2, DType::f64);
    const Tensor weight = normal({columns}, 1, 1, DType::f64);
    const Tensor bias = normal({columns}, 0, 1, DType::f64);
    CHECK(largest_difference(layer_norm(x, weight, bias, 1e-5).y,
                             by_definition(x, weight, bias, 1e-5)) < 1e-13);
    // Compared with the exact result for the f32 inputs: a few roundings of numbers up to `size`.
    // The largest is that of the mean, amplified by rstd where a row has nearly no variance.
    const Tensor w = weight.to(DType::f32), b = bias.to(DType::f32);
    for (DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(dtype);
      const Tensor low = x.to(dtype);
      const Tensor exact =
          by_definition(low.to(DType::f64), w.to(DType::f64), b.to(DType::f64), 1e-5);
      const double size = max(abs(exact)).item<double>();
      const double unit = dtype == DType::f32 ? 8 * 0x1p-24 : 0x1p-8;
      CHECK(largest_difference(layer_norm(low, w, b, 1e-5).y, exact) <= unit * (size + 4));
    }
  }
}

TEST_CASE("the fused residual LayerNorm equals dropout, add and layer_norm bit by bit") {
  const GeneratorGuard guard({.seed = 2});
  for (DType dtype : {DType::f32, DType::f64}) {
    for (std::int64_t columns : {5, 32, 77, 384, 1030}) {
      CAPTURE(columns);
      const Tensor x = normal({70, columns}, 0, 1, dtype), r = normal({70, columns}, 1, 1, dtype);
      const Tensor w = normal({columns}, 1, 1, dtype), b = normal({columns}, 0, 1, dtype);
      const Tensor grad = normal({70, columns}, 0, 1, dtype), at = positions_of(70);

      const auto fused = residual_dropout_layer_norm(x, r, kDrop, at, w, b, 1e-12);
      const Tensor z = add(r, dropout(x, kDrop, at));
      const auto composed = layer_norm(z, w, b, 1e-12);
      CHECK(doubles(fused.y) == doubles(composed.y));
      CHECK(doubles(fused.rstd) == doubles(composed.rstd));

      Tensor gw[2] = {ones({columns}, dtype), ones({columns}, dtype)};
      Tensor gb[2] = {empty({columns}, dtype), empty({columns}, dtype)};
      const auto gradients = residual_dropout_layer_norm_backward(
          grad, fused.normalized, fused.rstd, w, kDrop, at, {gw[0], 1}, {gb[0], 0});
      const Tensor grad_z = layer_norm_backward(grad, z, composed.mean, composed.rstd, w, true,
                                                {gw[1], 1}, {gb[1], 0});
      CHECK(doubles(gradients.residual) == doubles(grad_z));
      CHECK(doubles(gradients.x) == doubles(dropout(grad_z, kDrop, at)));
      CHECK(doubles(gw[0]) == doubles(gw[1]));
      CHECK(doubles(gb[0]) == doubles(gb[1]));
    }
  }
}

TEST_CASE("column sums of LayerNorm do not depend on the number of threads; beta adds") {
  const GeneratorGuard guard({.seed = 3});
  const Device device{DeviceType::cpu, 21};
  const Tensor x = normal({333, 100}, 0, 1, DType::f32, device), grad = scale(x, 3);
  const Tensor w = ones({100}, DType::f32, device);
  on_any_threads([&] {
    const auto out = layer_norm(x, w, w, 1e-5);
    Tensor gw = empty({100}, DType::f32, device), gb = empty({100}, DType::f32, device);
    layer_norm_backward(grad, x, out.mean, out.rstd, w, false, {gw, 0}, {gb, 0});
    const std::vector<double> once = doubles(gw);
    layer_norm_backward(grad, x, out.mean, out.rstd, w, false, {gw, 1}, {});
    CHECK(doubles(gw)[7] == 2 * once[7]);
    return std::vector{once, doubles(gb)};
  });
}

TEST_CASE("LayerNorm's backward also sums the rows of x's gradient as stored") {
  const GeneratorGuard guard({.seed = 4});
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const std::int64_t rows : {0, 1, 9, 70})
      for (const std::int64_t columns : {5, 64, 768, 1030})
        for (const float p : {0.0f, 0.3f}) {
          CAPTURE(dtype);
          CAPTURE(rows);
          CAPTURE(columns);
          const DType wide = parameter_dtype(dtype);
          const DropoutKey key{.p = p, .seed = 6};
          const Tensor z = normal({rows, columns}).to(dtype),
                       grad = normal({rows, columns}).to(dtype);
          const Tensor w = normal({columns}, 1, 1, wide), rstd = uniform({rows}, 1, 2, wide);
          const Tensor at = positions_of(static_cast<std::int32_t>(rows));
          const auto run = [&](Tensor to_weight, Tensor to_bias, Tensor sums, double beta) {
            return residual_dropout_layer_norm_backward(grad, z, rstd, w, key, at, {to_weight, 0},
                                                        {to_bias, 0}, {sums, beta});
          };
          const Tensor before = normal({columns}, 0, 1, wide), sums = before.clone();
          const Tensor gw[2] = {empty({columns}, wide), empty({columns}, wide)};
          const Tensor gb[2] = {empty({columns}, wide), empty({columns}, wide)};
          const auto gradients = run(gw[0], gb[0], sums, 1);
          check_row_sums(sums, gradients.x, before);
          const auto without = residual_dropout_layer_norm_backward(grad, z, rstd, w, key, at,
                                                                    {gw[1], 0}, {gb[1], 0});
          CHECK(doubles(gradients.x) == doubles(without.x));
          CHECK(doubles(gw[0]) == doubles(gw[1]));
          CHECK(doubles(gb[0]) == doubles(gb[1]));
          run({}, {}, sums, 0);
          check_row_sums(sums, gradients.x);
          // One parameter may be the bias of both.
          const Tensor both = empty({columns}, wide);
          run({}, both, both, 1);
          CHECK(doubles(both) == doubles(add(gb[0], sums)));
        }
  const Tensor x = ones({2, 4}), w = ones({4}), kept = ones({2});
  CHECK_THROWS_AS(residual_dropout_layer_norm_backward(x, x, kept, w, {}, {}, {}, {}, {ones({2})}),
                  Error);
}

TEST_CASE("layer_norm takes no rows, and says what does not fit") {
  const Tensor w = ones({4});
  CHECK(layer_norm(zeros({0, 4}), w, w, 1e-5).y.shape() == Shape{0, 4});
  Tensor gw = ones({4}), gb = ones({4});
  layer_norm_backward(zeros({0, 4}), zeros({0, 4}), zeros({0}), zeros({0}), w, true, {gw, 0},
                      {gb, 1});
  CHECK(gw.to_vector() == std::vector<float>{0, 0, 0, 0});
  CHECK(gb.to_vector() == std::vector<float>{1, 1, 1, 1});
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 0}), w, w, 1e-5), "[layer_norm] no columns in (2, 0)",
                       Error);
  CHECK_THROWS_AS(layer_norm(zeros({2, 3}), w, w, 1e-5), Error);
  CHECK_THROWS_AS(layer_norm(zeros({2, 4}, DType::bf16), w.to(DType::bf16), w, 1e-5), Error);
  CHECK_THROWS_AS(residual_dropout_layer_norm(zeros({2, 4}), zeros({2, 4}), {.p = 1}, {}, w, w, 1),
                  Error);
}

TEST_CASE("the gradient of layer_norm takes what its forward kept, and nothing else") {
  const Tensor x = ones({2, 4}), w = ones({4}), kept = ones({2});
  const auto back = [&](const Tensor& mean, const Tensor& rstd) {
    layer_norm_backward(x, x, mean, rstd, w, true, {}, {});
  };
  back(kept, kept);
  const Device elsewhere = Device::parse("cpu:2");
  for (const Tensor& wrong : {ones({1}), ones({2}, DType::f64), ones({2}, DType::f32, elsewhere),
                              ones({2, 1}), Tensor()}) {
    CHECK_THROWS_AS(back(wrong, kept), Error);
    CHECK_THROWS_AS(back(kept, wrong), Error);
    CHECK_THROWS_AS(residual_dropout_layer_norm_backward(x, x, wrong, w, {}, {}, {}, {}), Error);
  }
  CHECK_THROWS_WITH_AS(back(ones({1}), kept), "[layer_norm] shape of mean: (1,) != (2,)", Error);
  const Tensor positions = zeros({2, 2}, DType::i32, elsewhere);
  CHECK_THROWS_AS(residual_dropout_layer_norm(x, x, {.p = 0.5f}, positions, w, w, 1e-5), Error);
  CHECK_THROWS_AS(
      residual_dropout_layer_norm_backward(x, x, kept, w, {.p = 0.5f}, positions, {}, {}), Error);
}
