// Zeros, denormals, huge and tiny numbers, infinities and NaN: as in PyTorch, values and gradients.
#include <functional>

#include "../oracle.h"
#include "ringlet/autograd/functions.h"

using namespace ringlet;
using namespace ringlet::autograd;

namespace {

// Compares each element: NaN with NaN, the same infinity, else within `ulps` roundings or `floor`.
void check_elements(const std::string& what, const Tensor& actual, const Tensor& expected,
                    double ulps, double floor) {
  REQUIRE(actual.shape() == expected.shape());
  const auto a = actual.to_vector<double>(), b = expected.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(what);
    CAPTURE(i);
    CAPTURE(a[i]);
    CAPTURE(b[i]);
    const bool nan = std::isnan(a[i]) && std::isnan(b[i]);
    const double allowed = std::max(ulps * kF32 * std::abs(b[i]), floor);
    const bool near = std::isfinite(b[i]) && std::abs(a[i] - b[i]) <= allowed;
    CHECK((nan || a[i] == b[i] || near));
  }
}

constexpr double kLeast = 0x1p-126;  // the least normal f32

using Function = std::function<Variable(const std::vector<Variable>&)>;
void check_case(const Oracle& oracle, const std::string& c, const std::vector<std::string>& names,
                double ulps, const Function& function, double floor = kLeast) {
  std::vector<Variable> inputs;
  for (const std::string& name : names) inputs.emplace_back(oracle.tensor(c + "/" + name), true);
  const Variable y = function(inputs);
  y.backward(ones(y.shape()));
  check_elements(c, y.tensor(), oracle.tensor(c + "/y"), ulps, kLeast);
  for (std::size_t i = 0; i < names.size(); ++i)
    check_elements(c + " grad_" + names[i], inputs[i].grad(),
                   oracle.tensor(c + "/grad_" + names[i]), 2 * ulps + 2, floor);
}

}  // namespace

TEST_CASE("unary functions at extremes") {
  const Oracle oracle("extremes");
  for (int i = 0; i <= static_cast<int>(kLastUnaryOp); ++i) {
    const auto op = static_cast<UnaryOp>(i);
    if (op == UnaryOp::gelu_derivative) continue;
    // 1 - tanh^2 is as exact as 1.
    check_case(
        oracle, str(name(op), ".extremes"), {"x"}, 20,
        [&](const auto& in) { return unary(op, in[0]); }, op == UnaryOp::tanh ? 20 * kF32 : kLeast);
  }
}

TEST_CASE("binary functions at extremes") {
  const Oracle oracle("extremes");
  for (BinaryOp op : {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div, BinaryOp::pow,
                      BinaryOp::maximum, BinaryOp::minimum})
    for (const std::string& c : oracle.cases(name(op)))
      check_case(oracle, c, {"a", "b"}, 4,
                 [&](const auto& in) { return binary(op, in[0], in[1]); });
  for (int i = static_cast<int>(kFirstComparison); i <= static_cast<int>(kLastBinaryOp); ++i) {
    const auto op = static_cast<BinaryOp>(i);
    const std::string c = str(name(op), ".extremes");
    check_elements(c, ringlet::binary(op, oracle.tensor(c + "/a"), oracle.tensor(c + "/b")),
                   oracle.tensor(c + "/y"), 0, 0);
  }
}

TEST_CASE("a number as an operand is PyTorch's") {
  const Oracle oracle("extremes");
  const auto of = [](const std::string& op, const auto& x, double c) {
    if (op == "add_number") return x + c;
    if (op == "sub_number") return x - c;
    if (op == "mul_number") return x * c;
    if (op == "div_number") return x / c;
    if (op == "radd_number") return c + x;
    if (op == "rsub_number") return c - x;
    if (op == "rmul_number") return c * x;
    return c / x;
  };
  for (const std::string op : {"add_number", "sub_number", "mul_number", "div_number",
                               "radd_number", "rsub_number", "rmul_number", "rdiv_number"})
    for (const std::string& c : oracle.cases(op)) {
      const double number = oracle.scalar(c + "/number");
      const Tensor x = oracle.tensor(c + "/x");
      check_elements(c, of(op, x, number), oracle.tensor(c + "/y"), 0, 0);
      if (x.dtype() == DType::bf16) continue;
      check_case(oracle, c, {"x"}, 0, [&](const auto& in) { return of(op, in[0], number); });
    }
}

TEST_CASE("reductions at extremes") {
  const Oracle oracle("extremes");
  const std::pair<const char*, ReduceOp> functions[] = {{"sum", ReduceOp::sum},
                                                        {"mean", ReduceOp::mean},
                                                        {"amax", ReduceOp::max},
                                                        {"amin", ReduceOp::min}};
  for (const auto& [name, op] : functions)
    for (const std::string& c : oracle.cases(name))
      check_case(oracle, c, {"x"}, 2,
                 [&, op = op](const auto& in) { return reduce(op, in[0], {-1}); });
  for (const std::string& c : oracle.cases("argmax"))
    check_elements(c, argmax(oracle.tensor(c + "/x"), -1), oracle.tensor(c + "/y"), 0, 0);
}

TEST_CASE("functions of rows at extremes") {
  const Oracle oracle("extremes");
  const Variable weight(tensor<float>({1, -2, 3}));
  for (const std::string& c : oracle.cases("softmax"))
    check_case(oracle, c, {"x"}, 20, [&](const auto& in) { return softmax(in[0]) * weight; });
  for (const std::string& c : oracle.cases("log_softmax"))
    check_case(oracle, c, {"x"}, 20, [&](const auto& in) { return log_softmax(in[0]) * weight; });
  // Squares that overflow: core/ops/normalize.h, cosine_similarity.h and layer_norm.h.
  const auto overflows = [](const std::string& c) { return c.ends_with(".huge"); };
  const auto varies_too_much = [&](const std::string& c) {
    return overflows(c) || c.ends_with(".1e25") || c.ends_with(".same");
  };
  for (const std::string& c : oracle.cases("normalize"))
    if (!overflows(c))
      check_case(oracle, c, {"x"}, 20, [&](const auto& in) {
        return in[0].size(-1) == 1 ? normalize(in[0]) : normalize(in[0]) * weight;
      });
  for (const std::string& c : oracle.cases("layer_norm"))
    if (!varies_too_much(c))
      check_case(oracle, c, {"x"}, 20, [&](const auto& in) {
        return layer_norm(in[0], Variable(ones({3})), Variable(zeros({3})), 1e-5) * weight;
      });
  for (const std::string& c : oracle.cases("cross_entropy"))
    check_case(oracle, c, {"x"}, 20, [&](const auto& in) {
      return cross_entropy(in[0], oracle.tensor(c + "/labels"), 1);
    });
  for (const std::string& c : oracle.cases("cosine_similarity"))
    if (!overflows(c))
      check_case(oracle, c, {"a", "b"}, 20,
                 [&](const auto& in) { return cosine_similarity(in[0], in[1]); });
}

TEST_CASE("the gradient of cross_entropy is as exact beside large logits") {
  const Oracle oracle("extremes");
  for (const std::string& c : oracle.cases("large_logits")) {
    const Variable x(oracle.tensor(c + "/x"), true);
    const Variable y = cross_entropy(x, oracle.tensor(c + "/labels"), 1);
    y.backward();
    check_close(y.tensor(), oracle.tensor(c + "/y"), 16 * kF32, c);
    check_close(x.grad(), oracle.tensor(c + "/grad_x"), 8 * kF32, c);
    check_close(ringlet::sum(x.grad(), {-1}), zeros({64}), 16 * kF32, c, 1);
  }
}
