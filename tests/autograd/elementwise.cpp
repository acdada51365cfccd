#include "ringlet/autograd/functions/elementwise.h"

#include "../oracle.h"
#include "check.h"
#include "ringlet/autograd/functions/reduce.h"
#include "ringlet/autograd/functions/view.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("gradients of unary functions") {
  for (UnaryOp op : {UnaryOp::neg, UnaryOp::abs, UnaryOp::exp, UnaryOp::tanh, UnaryOp::sigmoid,
                     UnaryOp::relu, UnaryOp::gelu, UnaryOp::square}) {
    CAPTURE(static_cast<int>(op));
    CHECK_GRADIENTS([&](const Inputs& in) { return unary(op, in[0]); }, input({3, 5}, -2, 2));
  }
  for (UnaryOp op : {UnaryOp::log, UnaryOp::sqrt, UnaryOp::rsqrt, UnaryOp::reciprocal}) {
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

TEST_CASE("binary functions agree with PyTorch, and so do their gradients") {
  const Oracle ops("ops");
  const std::pair<const char*, BinaryOp> functions[] = {
      {"add", BinaryOp::add}, {"sub", BinaryOp::sub},         {"mul", BinaryOp::mul},
      {"div", BinaryOp::div}, {"maximum", BinaryOp::maximum}, {"minimum", BinaryOp::minimum}};
  for (const auto& [name, op] : functions)
    for (const std::string& c : ops.cases(name)) {
      const Variable a(ops.tensor(c + "/a"), true), b(ops.tensor(c + "/b"), true);
      const Variable y = binary(op, a, b);
      y.backward(ops.tensor(c + "/grad_y"));
      check_close(y.tensor(), ops.tensor(c + "/y"), 2 * kF32, c);
      // A broadcast operand's gradient sums one term per use, each rounded up to three times (div:
      // -grad a / b^2).
      const double terms_a = static_cast<double>(y.numel()) / std::max<double>(1, a.numel());
      const double terms_b = static_cast<double>(y.numel()) / std::max<double>(1, b.numel());
      check_close(a.grad(), ops.tensor(c + "/grad_a"), (3 + terms_a) * kF32, c);
      check_close(b.grad(), ops.tensor(c + "/grad_b"), (3 + terms_b) * kF32, c);
    }
}

TEST_CASE("unary functions agree with PyTorch, and so do their gradients") {
  const Oracle ops("ops");
  struct Row {
    const char* name;
    UnaryOp op;
    double value, gradient;  // roundings of the largest element
  };
  // exp is within 2 ulp, which is 4 roundings, tanh within 4; GELU's erf within 5e-7, 9 roundings.
  const Row rows[] = {{"exp", UnaryOp::exp, 4, 5},       {"log", UnaryOp::log, 4, 1},
                      {"sqrt", UnaryOp::sqrt, 1, 3},     {"rsqrt", UnaryOp::rsqrt, 2, 9},
                      {"tanh", UnaryOp::tanh, 8, 11},    {"sigmoid", UnaryOp::sigmoid, 6, 11},
                      {"relu", UnaryOp::relu, 0, 0},     {"gelu", UnaryOp::gelu, 9, 14},
                      {"abs", UnaryOp::abs, 0, 0},       {"neg", UnaryOp::neg, 0, 0},
                      {"square", UnaryOp::square, 1, 2}, {"reciprocal", UnaryOp::reciprocal, 1, 4}};
  for (const Row& row : rows)
    for (const std::string& c : ops.cases(row.name)) {
      const Variable x(ops.tensor(c + "/x"), true);
      const Variable y = unary(row.op, x);
      y.backward(ops.tensor(c + "/grad_y"));
      check_close(y.tensor(), ops.tensor(c + "/y"), (1 + row.value) * kF32, c);
      check_close(x.grad(), ops.tensor(c + "/grad_x"), (1 + row.gradient) * kF32, c);
    }
}

TEST_CASE("pow and where agree with PyTorch, and so do their gradients") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("pow")) {
    const bool tensors = ops.contains(c + "/a");
    const Variable a(ops.tensor(c + (tensors ? "/a" : "/x")), true);
    const Variable b(
        tensors ? ops.tensor(c + "/b") : scalar_like(ops.scalar(c + "/exponent"), a.tensor()),
        tensors);
    const Variable y = binary(BinaryOp::pow, a, b);
    y.backward(ops.tensor(c + "/grad_y"));
    // powf is within an ulp; the gradient multiplies it twice more and sums four rows for b.
    check_close(y.tensor(), ops.tensor(c + "/y"), 3 * kF32, c);
    check_close(a.grad(), ops.tensor(c + (tensors ? "/grad_a" : "/grad_x")), 6 * kF32, c);
    if (tensors) check_close(b.grad(), ops.tensor(c + "/grad_b"), 10 * kF32, c);
  }
  for (const std::string& c : ops.cases("where")) {
    const Variable a(ops.tensor(c + "/a"), true), b(ops.tensor(c + "/b"), true);
    where(ops.tensor(c + "/condition"), a, b).backward(ops.tensor(c + "/grad_y"));
    check_close(a.grad(), ops.tensor(c + "/grad_a"), 4 * kF32, c);
    check_close(b.grad(), ops.tensor(c + "/grad_b"), 5 * kF32, c);
  }
}

TEST_CASE("reductions agree with PyTorch, and so do their gradients") {
  const Oracle ops("ops");
  const std::pair<const char*, ReduceOp> functions[] = {{"sum", ReduceOp::sum},
                                                        {"mean", ReduceOp::mean},
                                                        {"max", ReduceOp::max},
                                                        {"min", ReduceOp::min}};
  for (const auto& [name, op] : functions)
    for (const std::string& c : ops.cases(name)) {
      const Variable x(ops.tensor(c + "/x"), true);
      const bool axes = ops.contains(c + "/axes");
      const Variable y =
          reduce(op, x, axes ? ops.tensor(c + "/axes").to_vector<int>() : std::vector<int>{},
                 axes && ops.flag(c + "/keepdim"));
      y.backward(ops.tensor(c + "/grad_y"));
      // Sums of n terms of size 1: the roundings of the partial sums, each at most n large.
      const double terms = static_cast<double>(x.numel()) / static_cast<double>(y.numel());
      const bool additive = op == ReduceOp::sum || op == ReduceOp::mean;
      const double size = op == ReduceOp::mean ? 1 : terms;
      check_close(y.tensor(), ops.tensor(c + "/y"), (1 + std::log2(terms)) * kF32, c,
                  additive ? size : 0);
      check_close(x.grad(), ops.tensor(c + "/grad_x"), 3 * kF32, c);
    }
}
