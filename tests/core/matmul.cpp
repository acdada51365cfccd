#include "ringlet/core/ops/matmul.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "../device.h"
#include "../oracle.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "threads.h"

using namespace ringlet;
using Floats = std::vector<float>;

namespace {

// The largest error over its bound k u sum |a b| (+ one rounding of the result in `out_unit`).
double error_share(const Tensor& out, const Tensor& a, const Tensor& b, MatmulOptions options,
                   double unit, double out_unit, const Tensor& added = {}) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>(), z = out.to_vector<double>();
  const auto offset = added ? added.to_vector<double>() : std::vector<double>(z.size());
  const std::int64_t m = out.size(-2), n = out.size(-1), k = a.size(options.trans_a ? -2 : -1);
  double worst = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double exact = offset[i * n + j], magnitude = 0;
      for (std::int64_t d = 0; d < k; ++d) {
        const double product =
            x[options.trans_a ? d * m + i : i * k + d] * y[options.trans_b ? j * k + d : d * n + j];
        exact += product;
        magnitude += std::abs(product);
      }
      const double bound = k * unit * magnitude + out_unit * std::abs(exact) + 1e-300;
      worst = std::max(worst, std::abs(z[i * n + j] - exact) / bound);
    }
  return worst;
}

// A product's elements equal those of another shape's: the same bits, or each within its bound.
void check_same(const Tensor& product, const Tensor& expected, const Tensor& a, const Tensor& b) {
  if (has_shape_free_products)
    CHECK(product.to_vector() == expected.to_vector());
  else
    CHECK(error_share(product, a, b, {}, kF32, a.dtype() == DType::bf16 ? kBF16 : 0) <= 1);
}

Shape stored(std::int64_t rows, std::int64_t columns, bool transposed) {
  return transposed ? Shape{columns, rows} : Shape{rows, columns};
}

}  // namespace

TEST_CASE("matmul multiplies matrices, transposed where asked") {
  const Tensor a = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = tensor<float>({1, 0, 2, 0, 1, 3}, {2, 3});
  CHECK(matmul(a, b, {.trans_b = true}).to_vector() == Floats{7, 11, 16, 23});
  CHECK(matmul(a, b, {.trans_a = true}).to_vector() == Floats{1, 4, 14, 2, 5, 19, 3, 6, 24});
  CHECK_THROWS_WITH_AS(matmul(a, b), "[matmul] inner sizes of (2, 3) and (2, 3) differ: 3 != 2",
                       Error);
  CHECK_THROWS_AS(matmul(a, b.to(DType::f64), {.trans_b = true}), Error);
  CHECK_THROWS_AS(matmul(a, tensor<float>({1, 2, 3})), Error);
  CHECK_THROWS_AS(matmul(a.to(DType::i32), b.to(DType::i32), {.trans_b = true}), Error);
}

TEST_CASE("every size and form stays within the bound of a dot product") {
  struct Sizes {
    std::int64_t m, n, k;
  };
  const GeneratorGuard guard({.seed = 5});
  for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{3, 5, 2}, Sizes{4, 48, 8}, Sizes{7, 49, 193},
                         Sizes{130, 400, 20}, Sizes{129, 20, 385}})
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (int form = 0; form < 4; ++form) {
        CAPTURE(dtype);
        CAPTURE(s.m);
        CAPTURE(s.k);
        CAPTURE(form);
        const MatmulOptions options{form % 2 == 1, form / 2 == 1};
        const Tensor a = normal(stored(s.m, s.k, options.trans_a)).to(dtype);
        const Tensor b = normal(stored(s.k, s.n, options.trans_b)).to(dtype);
        const Tensor out = matmul(a, b, options);
        const double unit = dtype == DType::f64 ? kF64 : kF32;
        CHECK(out.dtype() == dtype);
        CHECK(error_share(out, a, b, options, unit, dtype == DType::bf16 ? kBF16 : 0) <= 1);
      }
}

TEST_CASE("operands and results of every dtype, form and batch are exact on small integers") {
  struct Dtypes {
    DType a, b, out;
  };
  const auto integers = [](const Shape& shape, std::int64_t salt) {
    std::vector<double> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)  // no two rows and no two matrices are equal
      values[i] = static_cast<double>((static_cast<std::int64_t>(i) * 3 + salt) % 7 - 3);
    return tensor(values, shape);
  };
  for (const Dtypes& d : {Dtypes{DType::f32, DType::f32, DType::f32},
                          {DType::f32, DType::f32, DType::bf16},
                          {DType::f64, DType::f64, DType::f64},
                          {DType::bf16, DType::bf16, DType::bf16},
                          {DType::bf16, DType::bf16, DType::f32},
                          {DType::f32, DType::bf16, DType::f32},
                          {DType::bf16, DType::f32, DType::bf16}})
    for (int form = 0; form < 4; ++form)
      for (const std::int64_t k : {0, 1, 4})
        for (const std::int64_t batch : {1, 3})
          for (const double beta : {0, 2}) {
            CAPTURE(d.a);
            CAPTURE(d.out);
            CAPTURE(form);
            CAPTURE(k);
            CAPTURE(batch);
            const MatmulOptions options{form % 2 == 1, form / 2 == 1};
            const Shape a_matrix = stored(3, k, options.trans_a);
            const Shape b_matrix = stored(k, 5, options.trans_b);
            const Tensor a = integers({batch, a_matrix[0], a_matrix[1]}, 1);
            const Tensor b = integers({batch, b_matrix[0], b_matrix[1]}, 2);
            const Tensor before = integers({batch, 3, 5}, 4);
            Tensor out = before.clone().to(d.out);
            matmul_into(out, a.to(d.a), b.to(d.b), options, beta);
            for (std::int64_t i = 0; i < batch; ++i)
              CHECK(error_share(out[i], a[i], b[i], options, 0, 0, scale(before[i], beta)) <= 1);
          }
  const Tensor ones_of = ones({1, 5}, DType::bf16), above_one = full({3, 1}, 1 + 0x1p-9);
  CHECK(matmul(above_one, ones_of).to_vector() == Floats(15, 1));  // 1 in bf16
}

TEST_CASE("products of a batch are those of its matrices") {
  const Tensor a = normal({3, 4, 5}), b = normal({5, 2});
  const Tensor shared = matmul(a, b);
  for (int i = 0; i < 3; ++i) check_same(shared[i], matmul(a[i], b), a[i], b);
  const Tensor turned = matmul(a, normal({4, 2}), {.trans_a = true});
  CHECK(turned.shape() == Shape{3, 5, 2});
  CHECK_THROWS_AS(matmul(a, zeros({2, 5, 2})), Error);
}

TEST_CASE("a row's bits depend neither on the rows around it nor on the number of threads") {
  const GeneratorGuard guard({.seed = 6});
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Tensor a = normal({301, 210}).to(dtype), b = normal({210, 450}).to(dtype);
    const Tensor alone = matmul(a, b);
    on_any_threads([&] { return matmul(a, b).to_vector(); });
    for (std::int64_t row : {0, 5, 127, 128, 299, 300})
      check_same(matmul(a.slice(row, row + 1), b), alone[row], a.slice(row, row + 1), b);
  }
}

TEST_CASE("a product may be written over its own operand") {
  const GeneratorGuard guard({.seed = 11});
  for (const std::int64_t n : {5, 400, 800}) {  // more columns than a block has
    const Tensor x = normal({70, n}), w = normal({n, n});
    const Tensor expected = matmul(x, w);
    Tensor over = x.clone();
    matmul_into(over, over, w);
    CHECK(over.to_vector() == expected.to_vector());
  }
}

TEST_CASE("matmul_into adds to beta times what was there, and empty sizes work") {
  const Tensor a = tensor<float>({1, 2}, {1, 2}), b = tensor<float>({3, 4}, {2, 1});
  Tensor out = full({1, 1}, NAN);
  matmul_into(out, a, b);
  CHECK(out.item() == 11);
  matmul_into(out, zeros({1, 0}), zeros({0, 1}), {}, 0.5);
  CHECK(out.item() == 5.5f);
  matmul_into(out, zeros({1, 0}), zeros({0, 1}));
  CHECK(out.item() == 0);
  CHECK(matmul(zeros({0, 2}), b).shape() == Shape{0, 1});
  CHECK(matmul(a, zeros({2, 0})).shape() == Shape{1, 0});
  CHECK(matmul(zeros({0, 3, 2}), zeros({0, 2, 4})).shape() == Shape{0, 3, 4});
  Tensor wide = zeros({1, 1}, DType::f64);
  CHECK_THROWS_WITH_AS(matmul_into(wide, a, b), "[matmul] f32 products do not go into a f64 tensor",
                       Error);
}

TEST_CASE(
    "a bias is added before the one rounding of a bf16 result, rounded itself on CUDA alone") {
  const GeneratorGuard guard({.seed = 19});
  for (const std::int64_t k : {1, 8, 33, 256})
    for (const bool kept : {false, true}) {
      CAPTURE(k);
      const std::int64_t m = 40, n = 48;
      const Tensor x = normal({m, k}).to(DType::bf16), weight = normal({n, k});
      const Tensor bias = normal({n}, 0, 30);  // the largest part of the result
      const Floats y =
          linear(x, weight, bias, kept ? WeightUse::kept : WeightUse::changing).to_vector();
      const auto a = x.to_vector<double>(), b = weight.to(DType::bf16).to_vector<double>();
      const auto offset = bias.to_vector<double>();
      const double bias_unit = x.device().type == DeviceType::cpu ? 0 : kBF16;
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double exact = offset[j], magnitude = std::abs(offset[j]);
          for (std::int64_t d = 0; d < k; ++d) {
            const double product = a[i * k + d] * b[j * k + d];
            exact += product;
            magnitude += std::abs(product);
          }
          // k + 1 additions in f32, the bias's rounding, and the result's rounding of the total.
          const double sum = (k + 1) * kF32 * magnitude + bias_unit * std::abs(offset[j]);
          CHECK(std::abs(y[i * n + j] - exact) <= sum + kBF16 * (std::abs(exact) + sum));
        }
    }
}

TEST_CASE("linear_gelu equals its composed twin") {
  const GeneratorGuard guard({.seed = 7});
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    CAPTURE(dtype);
    const DType master = dtype == DType::f64 ? DType::f64 : DType::f32;
    const Tensor x = normal({2, 70, 33}).to(dtype);
    const Tensor weight = normal({400, 33}).to(master), bias = normal({400}).to(master);
    Tensor pre;
    const Tensor y = linear_gelu(x, weight, bias, pre);
    CHECK(pre.to_vector() == linear(x, weight, bias).to_vector());
    CHECK(y.to_vector() == gelu(pre).to_vector());
    const Tensor grad = normal({2, 70, 400}).to(dtype);
    check_close(gelu_backward(grad, pre), mul(grad, unary(UnaryOp::gelu_derivative, pre)),
                dtype == DType::bf16 ? 2 * kBF16 : 0);
  }
  Tensor pre;
  CHECK(linear_gelu(zeros({3, 0}), zeros({2, 0}), tensor<float>({1, -1}), pre).to_vector() ==
        gelu(tensor<float>({1, -1, 1, -1, 1, -1})).to_vector());
  CHECK_THROWS_WITH_AS(linear(zeros({3, 4}), zeros({2, 5})),
                       "[linear] x (3, 4) and weight (2, 5): 4 != 5", Error);
  CHECK_THROWS_AS(linear(zeros({3, 4}), zeros({2, 4}), zeros({3})), Error);
}

TEST_CASE("beside bf16 a weight counts as rounded, and follows its writes") {
  Tensor weight = tensor<float>({1.00390625f, 2}, {1, 2});  // 1 + 2^-8 rounds to 1
  const Tensor x = tensor<float>({1, 1}, {1, 2}).to(DType::bf16);
  CHECK(linear(x, weight).dtype() == DType::bf16);
  CHECK(linear(x, weight).item() == 3);
  weight.fill_(3);
  CHECK(linear(x, weight).item() == 6);
  CHECK(matmul(x, weight[0].view({2, 1})).item() == 6);

  Tensor grad_weight = zeros({1, 2});
  matmul_into(grad_weight, full({1, 1}, 0.5, DType::bf16), x, {.trans_a = true});
  CHECK(grad_weight.to_vector() == Floats{0.5f, 0.5f});
}

TEST_CASE("products of f32 are as exact as the precision asks, and f32 by default") {
  const GeneratorGuard guard({.seed = 9});
  const std::int64_t k = 301;
  const Tensor a = normal({37, k}), b = normal({k, 70});
  const Tensor highest = matmul(a, b);
  CHECK(matmul_precision() == MatmulPrecision::highest);
  set_matmul_precision(MatmulPrecision::high);
  const Tensor high = matmul(a, b);
  set_matmul_precision(MatmulPrecision::medium);
  const Tensor medium = matmul(a, b);
  set_matmul_precision(MatmulPrecision::highest);
  // The omitted share of |a b|: 3 * 2^-16 for operands of two planes of bf16. 2 * 2^-11 + 2^-22 for
  // operands rounded to TF32's 11 bits, 2 * 2^-8 + 2^-16 for bf16's 8 bits.
  const bool cuda = a.device().type == DeviceType::cuda;
  const double left_out = cuda ? 0x1p-10 + 0x1p-22 : 3 * 0x1p-16;
  CHECK(error_share(highest, a, b, {}, kF32, 0) <= 1);
  CHECK(error_share(high, a, b, {}, kF32 + left_out / k, 0) <= 1);
  CHECK(error_share(medium, a, b, {}, kF32 + (0x1p-7 + 0x1p-16) / k, 0) <= 1);
  // If medium is not f32, it is the product of the rounded operands.
  Tensor rounded = empty(medium.shape());
  matmul_into(rounded, a.to(DType::bf16), b.to(DType::bf16));
  if (medium.to_vector() != highest.to_vector()) CHECK(medium.to_vector() == rounded.to_vector());

  CHECK(parse_matmul_precision("high") == MatmulPrecision::high);
  CHECK_THROWS_WITH_AS(parse_matmul_precision("low"),
                       "unknown matmul precision 'low'; expected highest, high or medium",
                       InputError);
}

TEST_CASE("a layer's gradients are the product and the sums that they are alone") {
  const GeneratorGuard guard({.seed = 10});
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const std::int64_t rows : {0, 1, 70, 1030}) {
      CAPTURE(dtype);
      CAPTURE(rows);
      const Tensor grad = normal({rows, 40}).to(dtype), x = normal({rows, 24}).to(dtype);
      const DType wide = parameter_dtype(dtype);
      for (const double beta : {0, 1}) {
        const Tensor weight = normal({40, 24}).to(wide), bias = normal({40}).to(wide);
        Tensor product = weight.clone(), sums = bias.clone();
        matmul_into(product, grad, x, {.trans_a = true}, beta);
        sum_rows_into(sums, grad, beta);
        Tensor to_weight = weight.clone(), to_bias = bias.clone(), alone = bias.clone();
        linear_gradients_into({to_weight, beta}, {to_bias, beta}, grad, x);
        linear_gradients_into({}, {alone, beta}, grad, x);
        CHECK(alone.to_vector() == sums.to_vector());
        if (grad.device().type == DeviceType::cpu) {
          CHECK(to_weight.to_vector() == product.to_vector());
          CHECK(to_bias.to_vector() == sums.to_vector());
        }
        // The `rows` additions in f32, in any order, each round by at most kF32 of the magnitudes'
        // sum.
        const Tensor exact = add(sum(grad.to(DType::f64), {0}), scale(bias.to(DType::f64), beta));
        const Tensor size = add(sum(abs(grad.to(DType::f64)), {0}), abs(bias.to(DType::f64)));
        const Tensor error = abs(sub(to_bias.to(DType::f64), exact));
        const double unit = dtype == DType::f64 ? 2 * kF64 : kF32;  // `exact` is f64, too
        CHECK(max(div(error, size)).item<double>() <= static_cast<double>(rows + 2) * unit);
        to_weight = weight.clone();
        linear_gradients_into({to_weight, beta}, {}, grad, x);
        CHECK(to_weight.to_vector() == product.to_vector());
      }
    }
  Tensor none = zeros({2, 0}), bias = zeros({2});
  linear_gradients_into({none}, {bias}, tensor<float>({1, 2, 3, 4}, {2, 2}), zeros({2, 0}));
  CHECK(bias.to_vector() == Floats{4, 6});
  CHECK_THROWS_WITH_AS(linear_gradients_into({}, {bias}, zeros({1, 2, 2}), zeros({2, 3})),
                       doctest::Contains("[linear_gradients] needs grad (rows, out)"), Error);
  Tensor weight = zeros({2, 3}), wide = zeros({2}, DType::f64);
  CHECK_THROWS_AS(linear_gradients_into({weight}, {wide}, zeros({2, 2}), zeros({2, 3})), Error);
  CHECK_THROWS_AS(linear_gradients_into({bias}, {}, zeros({2, 2}), zeros({2, 3})), Error);
}

TEST_CASE("gelu_backward's row sums are those of its result, however the kernel divides the rows") {
  const GeneratorGuard guard({.seed = 11});
  const auto check = [](DType dtype, const Shape& shape) {
    CAPTURE(dtype);
    CAPTURE(shape);
    const Tensor grad = normal(shape).to(dtype), pre = normal(shape).to(dtype);
    const Tensor before = normal({shape[-1]}).to(parameter_dtype(dtype));
    const Tensor sums = before.clone();
    const Tensor out = gelu_backward(grad, pre, {sums, 1});
    CHECK(out.to_vector() == gelu_backward(grad, pre).to_vector());
    check_row_sums(sums, out, before);
    gelu_backward(grad, pre, {sums, 0});
    check_row_sums(sums, out);
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const std::int64_t rows : {1, 7, 33, 100})
      for (const std::int64_t columns : {1, 33, 40, 256, 264}) check(dtype, {rows, columns});
    check(dtype, {2, 9, 16});
    check(dtype, {8200, 8});  // more rows than the least of each part
    check(dtype, {0, 5});
  }
  CHECK_THROWS_AS(gelu_backward(zeros({2, 4}), zeros({2, 4}), {zeros({3})}), Error);
  CHECK_THROWS_AS(gelu_backward(zeros({2, 4}), zeros({2, 4}), {zeros({4}, DType::f64)}), Error);
}

TEST_CASE("sum_rows_into adds up columns") {
  const Tensor grad = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor out = tensor<float>({10, 20, 30});
  sum_rows_into(out, grad, 1);
  CHECK(out.to_vector() == Floats{15, 27, 39});
  sum_rows_into(out, grad.to(DType::bf16));
  CHECK(out.to_vector() == Floats{5, 7, 9});
  sum_rows_into(out, zeros({0, 3}));
  CHECK(out.to_vector() == Floats{0, 0, 0});

  const GeneratorGuard guard({.seed = 8});
  const Tensor tall = normal({1000, 131});
  Tensor total = empty({131});
  sum_rows_into(total, tall);
  // Each number takes part in 64 additions and 1000 / 64 more of runs. Each of these rounds by at
  // most kF32 of a sum that is at most that of all magnitudes.
  const Tensor exact = tall.to(DType::f64);
  const Tensor difference = abs(sub(total.to(DType::f64), sum(exact, {0})));
  CHECK(max(div(difference, sum(abs(exact), {0}))).item<double>() < (64 + 16) * kF32);
  CHECK_THROWS_AS(sum_rows_into(total, tall.to(DType::f64)), Error);
}
