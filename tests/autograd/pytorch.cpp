// Element-wise functions, reductions and moves of elements: values and gradients are PyTorch's.
#include "pytorch.h"

#include <cmath>

#include "ringlet/autograd/functions.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

Row of(const char* name, UnaryOp op, double value, double gradient) {
  return {name, [=](const Case& c) { return unary(op, c.leaf("x")); }, value, gradient};
}

Row of(const char* name, BinaryOp op) {
  return {name, [=](const Case& c) { return binary(op, c.leaf("a"), c.leaf("b")); }, 2,
          with_terms(3)};
}

Row of(const char* name, ReduceOp op) {
  const auto function = [=](const Case& c) {
    const bool axes = c.has("axes");
    return reduce(op, c.leaf("x"), axes ? c.tensor("axes").to_vector<int>() : std::vector<int>{},
                  axes && c.number("keepdim") != 0);
  };
  // Roundings of the partial sums of n terms of size 1, each at most n large.
  const auto terms = [](const Case& c) { return c.numel("x") / c.numel("y"); };
  const Bound value{[=](const Case& c, const std::string&) { return 1 + std::log2(terms(c)); },
                    [=](const Case& c, const std::string&) {
                      return op == ReduceOp::sum ? terms(c) : op == ReduceOp::mean ? 1 : 0;
                    }};
  return {name, function, value, 3};
}

}  // namespace

TEST_CASE("element-wise functions and reductions are PyTorch's, and so are their gradients") {
  const auto pow = [](const Case& c) {
    if (c.has("b")) return binary(BinaryOp::pow, c.leaf("a"), c.leaf("b"));
    const Variable x = c.leaf("x");
    return binary(BinaryOp::pow, x, Variable(scalar_like(c.number("exponent"), x.tensor())));
  };
  // exp is within 2 ulp, which is 4 roundings, tanh within 4; GELU's erf within 5e-7, 9 roundings;
  // powf is within an ulp.
  for (const Row& row :
       {of("exp", UnaryOp::exp, 5, 6),
        of("log", UnaryOp::log, 5, 2),
        of("sqrt", UnaryOp::sqrt, 2, 4),
        of("rsqrt", UnaryOp::rsqrt, 3, 10),
        of("tanh", UnaryOp::tanh, 9, 12),
        of("sigmoid", UnaryOp::sigmoid, 7, 12),
        of("relu", UnaryOp::relu, 1, 1),
        of("gelu", UnaryOp::gelu, 10, 15),
        of("abs", UnaryOp::abs, 1, 1),
        of("neg", UnaryOp::neg, 1, 1),
        of("square", UnaryOp::square, 2, 3),
        of("reciprocal", UnaryOp::reciprocal, 2, 5),
        of("sin", UnaryOp::sin, 4, 5),
        of("cos", UnaryOp::cos, 4, 5),
        of("log1p", UnaryOp::log1p, 5, 4),
        Row{"silu", [](const Case& c) { return silu(c.leaf("x")); }, 9, 20},
        Row{"clamp",
            [](const Case& c) { return clamp(c.leaf("x"), c.number("low"), c.number("high")); }, 0,
            0},
        Row{"masked_fill",
            [](const Case& c) {
              return masked_fill(c.leaf("x"), c.tensor("mask"), c.number("value"));
            },
            0, 0},
        of("add", BinaryOp::add),
        of("sub", BinaryOp::sub),
        of("mul", BinaryOp::mul),
        of("div", BinaryOp::div),
        of("maximum", BinaryOp::maximum),
        of("minimum", BinaryOp::minimum),
        of("sum", ReduceOp::sum),
        of("mean", ReduceOp::mean),
        of("max", ReduceOp::max),
        of("min", ReduceOp::min),
        Row{"pow", pow, 3, with_terms(5)},
        Row{"where",
            [](const Case& c) { return where(c.tensor("condition"), c.leaf("a"), c.leaf("b")); }, 0,
            with_terms(3)}})
    check(row);
}

TEST_CASE("functions composed of reductions are PyTorch's, and so are their gradients") {
  using Axes = std::vector<int>;
  const auto over_axes = [](const char* name, auto function) {
    const auto of_case = [=](const Case& c) {
      return function(c.leaf("x"), c.tensor("axes").to_vector<int>(), c.number("keepdim") != 0);
    };
    return Row{name, of_case, 16, 32};  // sums of at most 60 terms
  };
  check(over_axes("logsumexp", [](const Variable& x, const Axes& axes, bool keepdim) {
    return logsumexp(x, axes, keepdim);
  }));
  check(over_axes("var", [](const Variable& x, const Axes& axes, bool keepdim) {
    return var(x, axes, keepdim);
  }));
  check(over_axes("std", [](const Variable& x, const Axes& axes, bool keepdim) {
    return autograd::std(x, axes, keepdim, /*correction=*/0);
  }));
  // Three passes for seven elements, which may cancel.
  check({"cumsum",
         [](const Case& c) { return cumsum(c.leaf("x"), c.integer("axis")); },
         {3, 7},
         {3, 7}});
}

TEST_CASE("joining, cutting, permuting and indexing are PyTorch's, and so are their gradients") {
  for (const Row& row :
       {Row{"concat", [](const Case& c) { return concat(c.list(), c.integer("axis")); }, 0, 0},
        Row{"stack", [](const Case& c) { return stack(c.list(), c.integer("axis")); }, 0, 0},
        Row{"pad", [](const Case& c) { return pad(c.leaf("x"), c.integer("axis"), 1, 2); }, 0, 0},
        Row{"permute",
            [](const Case& c) { return permute(c.leaf("x"), c.tensor("order").to_vector<int>()); },
            0, 0},
        Row{"index_select",
            [](const Case& c) {
              return index_select(c.leaf("x"), c.integer("axis"), c.tensor("index"));
            },
            0, 4},  // at most 4 terms
        Row{"gather",
            [](const Case& c) { return gather(c.leaf("x"), c.integer("axis"), c.tensor("index")); },
            0, 4},
        Row{"sort",
            [](const Case& c) {
              const Sorted sorted =
                  sort(c.leaf("x"), c.integer("axis"), c.number("descending") != 0);
              CHECK(sorted.indices.to_vector<int>() == c.tensor("indices").to_vector<int>());
              return sorted.values;
            },
            0, 0},
        Row{"tril", [](const Case& c) { return tril(c.leaf("x"), c.integer("diagonal")); }, 0, 0},
        Row{"triu", [](const Case& c) { return triu(c.leaf("x"), c.integer("diagonal")); }, 0, 0},
        Row{"scatter_add",
            [](const Case& c) {
              return scatter_add(c.leaf("x"), c.integer("axis"), c.tensor("index"),
                                 c.leaf("source"));
            },
            5, Bound{[](const Case&, const std::string& of) { return of == "source" ? 0. : 4.; }}}})
    check(row);
}

TEST_CASE("the parts of split are PyTorch's, and so is the gradient") {
  const Oracle ops("ops");
  for (const std::string& name : ops.cases("split")) {
    const Case c{ops, name};
    const Variable x(c.tensor("x"), true);
    const auto sizes = c.tensor("sizes").to_vector<std::int64_t>();
    const std::vector<Variable> parts = split(x, sizes, c.integer("axis"));
    REQUIRE(parts.size() == sizes.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      check_close(parts[i].tensor(), c.tensor(str("y", i)), 0, name);
      parts[i].backward(c.tensor(str("grad_y", i)));
    }
    check_close(x.grad(), c.tensor("grad_x"), 0, name);
  }
}
