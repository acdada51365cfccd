#include "ringlet/autograd/dot.h"

#include <doctest/doctest.h>

#include "ringlet/autograd/functions.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

std::string graph_of_a_layer() {
  const Variable x(ones({4, 3}));  // requires no gradient, so it is not drawn
  const Variable weight(ones({2, 3}), true), bias(ones({2}), true);
  weight.set_name("weight");
  bias.set_name("bias");
  const Variable y = linear(x, weight, bias);
  return to_dot(sum(y * y));
}

}  // namespace

TEST_CASE("a graph is drawn with ops by name, leaves by shape and name, and an arrow per use") {
  const std::string expected =
      "digraph {\n"
      "  op0 [label=\"linear\"];\n"
      "  leaf0 [shape=box, label=\"weight (2, 3)\"];\n"
      "  leaf0 -> op0;\n"
      "  leaf1 [shape=box, label=\"bias (2,)\"];\n"
      "  leaf1 -> op0;\n"
      "  op1 [label=\"mul\"];\n"
      "  op0 -> op1;\n"
      "  op0 -> op1;\n"
      "  op2 [label=\"sum\"];\n"
      "  op1 -> op2;\n"
      "}\n";
  CHECK_EQ(graph_of_a_layer(), expected);
  CHECK_EQ(graph_of_a_layer(), expected);  // of other nodes at other addresses
}

TEST_CASE("a leaf is drawn alone, and its name is escaped") {
  const Variable x(ones({2}), true);
  CHECK_EQ(to_dot(x), "digraph {\n  leaf0 [shape=box, label=\"(2,)\"];\n}\n");
  x.set_name("a \"b\" \\c");
  CHECK_EQ(to_dot(x), "digraph {\n  leaf0 [shape=box, label=\"a \\\"b\\\" \\\\c (2,)\"];\n}\n");
}

TEST_CASE("a long graph is drawn without recursion") {
  const Variable x(ones({1}), true);
  Variable y = x;
  constexpr int kOps = 100'000;
  for (int i = 0; i < kOps; ++i) y = exp(y);
  const std::string dot = to_dot(y);
  CHECK(dot.find(str("op", kOps - 2, " -> op", kOps - 1, ";")) != dot.npos);
  CHECK(dot.find(str("op", kOps)) == dot.npos);
}

TEST_CASE("a graph that backward has released is refused, a retained one is not") {
  const Variable x(ones({2}), true);
  const Variable y = sum(exp(x));
  const std::string before = to_dot(y);
  y.backward({}, /*retain_graph=*/true);
  CHECK_EQ(to_dot(y), before);
  y.backward();
  CHECK_THROWS_WITH_AS(to_dot(y),
                       "[to_dot] a backward has released the graph at sum: draw it before, or pass "
                       "retain_graph",
                       Error);
  CHECK_THROWS_WITH_AS(to_dot(Variable()), "[to_dot] an undefined variable has no graph", Error);
}
