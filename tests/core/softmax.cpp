#include "ringlet/core/ops/softmax.h"

#include "../device.h"
#include "../oracle.h"
#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "threads.h"

using namespace ringlet;
using Floats = std::vector<float>;

TEST_CASE("softmax gives shares, log_softmax their logarithms") {
  const Tensor x = tensor<float>({0, 0, 1000, 1000}, {2, 2});
  CHECK(softmax(x).to_vector() == Floats{0.5f, 0.5f, 0.5f, 0.5f});
  check_close(log_softmax(x), full({2, 2}, -std::log(2.0)), 2 * kF32);
  CHECK(softmax(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(log_softmax(zeros({3, 0})).shape() == Shape{3, 0});
  CHECK_THROWS_AS(softmax(zeros({})), Error);
  CHECK_THROWS_AS(softmax_backward(zeros({2}), zeros({3})), Error);
}

TEST_CASE("softmax of every width equals its composed twin") {
  const GeneratorGuard guard({.seed = 1});
  for (std::int64_t columns : {1, 7, 16, 17, 33, 200})
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      CAPTURE(columns);
      CAPTURE(dtype);
      const Tensor x = normal({5, columns}, 0, 3).to(dtype);
      const Tensor wide = x.to(DType::f64);
      const Tensor e = exp(sub(wide, max(wide, {-1}, true)));
      const Tensor expected = div(e, sum(e, {-1}, true));
      // exp 2 ulp, its argument 1, a sum of columns / 16 + 5 steps, a division, a store.
      const double unit = dtype == DType::f64 ? kF64 : kF32;
      const double stored = dtype == DType::bf16 ? kBF16 : 0;
      check_close(softmax(x), expected, (16 + columns / 16) * unit + stored);
      check_close(log_softmax(x), log(expected), (16 + columns / 16) * unit + stored, "", 1);
    }
}

TEST_CASE("cross_entropy takes labels of both widths, and its gradient has the logits' dtype") {
  const Tensor logits = tensor<float>({1, 2, 3, 3, 2, 1}, {2, 3});
  const Tensor labels = tensor<std::int64_t>({2, 2});
  const CrossEntropyOutput out = cross_entropy(logits, labels, 4);
  CHECK(cross_entropy(logits, labels.to(DType::i32), 4).loss.item() == out.loss.item());
  CHECK(cross_entropy_backward(full({}, 2), logits.to(DType::bf16), labels, out.lse, 4).dtype() ==
        DType::bf16);
}

TEST_CASE("cross_entropy of no rows is zero") {
  const Tensor none = zeros({0}, DType::i64);
  CHECK(cross_entropy(zeros({0, 3}), none, 8).loss.item() == 0);
  CHECK(cross_entropy_backward(ones({}), zeros({0, 3}), none, zeros({0, 2}), 8).shape() ==
        Shape{0, 3});
}

TEST_CASE("a wrong label is named with its row, by an asynchronous device when a result is read") {
  const Tensor logits = zeros({2, 3});
  CHECK_THROWS_WITH_AS(cross_entropy(logits, tensor<std::int64_t>({0, 3}), 1).loss.item(),
                       "[cross_entropy] the label of row 1 is 3, expected 0 to 2", Error);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, tensor<std::int32_t>({-1, 0}), 1).loss.item(),
                       "[cross_entropy] the label of row 0 is -1, expected 0 to 2", Error);
  CHECK(cross_entropy(logits, tensor<std::int64_t>({0, 2}), 1).loss.item() > 0);
  CHECK_THROWS_AS(cross_entropy(logits, zeros({2}), 1), Error);
  CHECK_THROWS_AS(cross_entropy(logits, tensor<std::int64_t>({0}), 1), Error);
  CHECK_THROWS_AS(cross_entropy(logits, tensor<std::int64_t>({0, 1}), 0), Error);
}

TEST_CASE("the loss has the same bits on any number of threads") {
  const GeneratorGuard guard({.seed = 2});
  const Tensor logits = normal({3000, 5});
  const Tensor labels = zeros({3000}, DType::i64);
  on_any_threads([&] { return cross_entropy(logits, labels, 3000).loss.item(); });
}

TEST_CASE("the gradient of cross_entropy takes what its forward kept, and nothing else") {
  const Tensor logits = zeros({2, 3}), labels = zeros({2}, DType::i32);
  const Device elsewhere = Device::parse("cpu:2");
  for (const Tensor& lse :
       {zeros({2}), zeros({2, 2}, DType::f64), zeros({2, 2}, DType::f32, elsewhere)})
    CHECK_THROWS_AS(cross_entropy_backward(ones({}), logits, labels, lse, 2), Error);
  CHECK_THROWS_AS(
      cross_entropy_backward(ones({}, DType::f32, elsewhere), logits, labels, zeros({2, 2}), 2),
      Error);
}
