#include <cmath>

#include "ringlet/autograd/functions.h"

#include "ringlet/autograd/node.h"

#include "check.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("gradients of unary functions") {
  for (UnaryOp op : {UnaryOp::neg, UnaryOp::abs, UnaryOp::exp, UnaryOp::tanh, UnaryOp::sigmoid,
                     UnaryOp::relu, UnaryOp::gelu, UnaryOp::square, UnaryOp::sin, UnaryOp::cos}) {
    CAPTURE(static_cast<int>(op));
    CHECK_GRADIENTS([&](const Inputs& in) { return unary(op, in[0]); }, input({3, 5}, -2, 2));
  }
  for (UnaryOp op :
       {UnaryOp::log, UnaryOp::sqrt, UnaryOp::rsqrt, UnaryOp::reciprocal, UnaryOp::log1p}) {
    CAPTURE(static_cast<int>(op));
    CHECK_GRADIENTS([&](const Inputs& in) { return unary(op, in[0]); }, input({7}, 0.5, 3));
  }
}

TEST_CASE("gradients of binary functions, broadcast") {
  for (BinaryOp op : {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div, BinaryOp::pow,
                      BinaryOp::maximum, BinaryOp::minimum}) {
    CAPTURE(static_cast<int>(op));
    const auto f = [&](const Inputs& in) { return binary(op, in[0], in[1]); };
    CHECK_GRADIENTS(f, input({3, 4}, 0.5, 3), input({3, 4}, 0.5, 3));
    CHECK_GRADIENTS(f, input({2, 3, 4}, 0.5, 3), input({3, 1}, 0.5, 3));
    CHECK_GRADIENTS(f, input({4}, 0.5, 3), input({2, 1}, 0.5, 3));
    CHECK_GRADIENTS(f, input({}, 0.5, 3), input({2, 2}, 0.5, 3));
  }
}

TEST_CASE("nodes are called by their op, in errors too") {
  const Variable x(tensor({1.f, 2.f}), true);
  const auto name = [](const Variable& y) { return std::string(y.state()->node->name()); };
  CHECK(name(exp(x)) == "exp");
  CHECK(name(x * x) == "mul");
  CHECK(name(minimum(x, x)) == "minimum");
  CHECK(name(unary(UnaryOp::sign, x)) == "sign");
  CHECK(name(unary(UnaryOp::reciprocal, x)) == "reciprocal");
  const Variable y = exp(x);
  Tensor written = y.tensor();
  written.zero_();
  CHECK_THROWS_WITH_AS(sum(y).backward(),
                       "[exp] a (2,) tensor was written to after forward, and backward needs it",
                       Error);
}

TEST_CASE("a gradient that needs no values keeps none: their memory may be written to") {
  for (UnaryOp op : {UnaryOp::neg, UnaryOp::sign}) {
    const Variable x(tensor({1.f, 2.f}), true);
    const Variable y = unary(op, x);
    Tensor written = y.tensor();
    written.zero_();
    sum(y).backward();
    CHECK(x.grad().to_vector() == std::vector<float>(2, op == UnaryOp::neg ? -1.f : 0.f));
  }
}

TEST_CASE("gradients of where and of scalar factors") {
  const Tensor condition = tensor<std::uint8_t>({1, 0, 1}, {3});
  CHECK_GRADIENTS([&](const Inputs& in) { return where(condition, in[0], in[1]); }, input({2, 3}),
                  input({}));
  CHECK_GRADIENTS([](const Inputs& in) { return (in[0] * 3 - 2) / 7; }, input({4}));
}

TEST_CASE("gradients of functions composed of others") {
  const Tensor mask = tensor<std::uint8_t>({1, 0, 1, 1}, {4});
  CHECK_GRADIENTS([&](const Inputs& in) { return masked_fill(silu(in[0]), mask, 3); },
                  input({3, 4}, -2, 2));
  CHECK_GRADIENTS([](const Inputs& in) { return clamp(in[0], -0.5, INFINITY); }, input({9}));
  for (const std::vector<int>& axes : {std::vector<int>{}, {0, 2}}) {
    CHECK_GRADIENTS([&](const Inputs& in) { return logsumexp(in[0], axes); }, input({2, 3, 4}));
    CHECK_GRADIENTS([&](const Inputs& in) { return autograd::std(in[0], axes, true); },
                    input({2, 3, 4}));
  }
  CHECK_GRADIENTS([](const Inputs& in) { return cumsum(in[0], 1); }, input({2, 5, 3}));
  CHECK_GRADIENTS([](const Inputs& in) { return sort(in[0], 0, true).values; }, input({5, 3}));
  CHECK_GRADIENTS([](const Inputs& in) { return tril(in[0], 1) * triu(in[0], -1); },
                  input({2, 4, 3}));
}

TEST_CASE("gradients of reductions") {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
    CAPTURE(static_cast<int>(op));
    for (const std::vector<int>& axes : {std::vector<int>{}, {0}, {-1}, {0, 2}})
      for (bool keepdim : {false, true})
        CHECK_GRADIENTS([&](const Inputs& in) { return reduce(op, in[0], axes, keepdim); },
                        input({2, 3, 4}));
  }
}

TEST_CASE("gradients of views, slices and casts") {
  CHECK_GRADIENTS(
      [](const Inputs& in) {
        return view(in[0], {4, 3}) * view(in[0], {4, 3});
      },
      input({3, 4}));
  CHECK_GRADIENTS([](const Inputs& in) { return slice(in[0], 1, 3) * slice(in[0], 0, 2); },
                  input({4, 2}));
  const Variable x(tensor({1.f, 2.f}), true);
  cast(x, DType::f64).backward(ones({2}, DType::f64));
  CHECK(x.grad().to_vector() == std::vector<float>{1, 1});
}
