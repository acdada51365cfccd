#include <doctest/doctest.h>

#include <array>
#include <optional>

#include "ringlet/autograd/functions.h"
#include "ringlet/autograd/gradcheck.h"
#include "ringlet/autograd/node.h"
#include "ringlet/tests/message.h"

using namespace ringlet;
using namespace ringlet::autograd;
using Floats = std::vector<float>;

TEST_CASE("backward adds up over all paths from the result to a leaf") {
  const Variable x(tensor({2.f, 3.f}), true);
  const Variable y = x * x + x;  // dy/dx = 2x + 1
  sum(y).backward();
  CHECK(x.grad().to_vector() == Floats{5, 7});
}

TEST_CASE("gradients accumulate until zero_grad") {
  const Variable x(tensor({1.f}), true);
  sum(x * 3).backward();
  sum(x * 4).backward();
  CHECK(x.grad().item() == 7);
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
  sum(x * 5).backward();
  CHECK(x.grad().item() == 5);
}

TEST_CASE("gradients are written in place, into the memory the leaf was given") {
  const Variable x(tensor({1.f, 2.f}), true);
  Tensor arena = full({4}, 9);
  x.set_grad_buffer(arena.slice(1, 3));
  sum(x * x).backward();
  CHECK(arena.to_vector() == Floats{9, 2, 4, 9});
}

TEST_CASE("a gradient shared by two inputs is never added to in place") {
  const Variable a(tensor({1.f}), true), b(tensor({1.f}), true);
  const Variable s = a + b;       // passes one tensor to both
  sum(s + a * 2 + s).backward();  // and a has a second use
  CHECK(a.grad().item() == 4);
  CHECK(b.grad().item() == 2);
}

TEST_CASE("the ready hook fires once per backward, after the last use") {
  const Variable w(tensor({2.f}), true);
  std::vector<float> seen;
  HookHandle handle = w.register_ready_hook([&] { seen.push_back(w.grad().item()); });
  sum(w * w * w).backward();  // three uses, gradient 3 w^2
  CHECK(seen == Floats{12});
  handle.reset();
  sum(w * 1).backward();
  CHECK(seen.size() == 1);
}

TEST_CASE("an observer hears what a backward reaches, gives memory, and hears when all is done") {
  struct Recorder final : LeafObserver {
    void backward_begins(std::span<VariableState* const> reached) override {
      heard += str("begin ", reached.size(), ";");
    }
    void needs_grad_buffer(VariableState& leaf) override {
      heard += "memory for " + leaf.name + ";";
      leaf.grad_buffer = memory;
    }
    void grad_ready(VariableState& leaf) override { heard += "ready " + leaf.name + ";"; }
    void backward_ends() override { heard += "end"; }
    void backward_failed() noexcept override { heard += "failed"; }
    std::string heard;
    Tensor memory = empty({2});
  };
  const auto recorder = std::make_shared<Recorder>();
  const Variable x(tensor({2.f, 3.f}), true), unused(tensor({1.f}), true);
  x.set_name("x");
  for (const Variable& leaf : {x, unused}) leaf.state()->observer = recorder;
  sum(x * x + x).backward();
  CHECK(recorder->heard == "begin 1;memory for x;ready x;end");
  CHECK(recorder->memory.to_vector() == Floats{5, 7});

  recorder->heard.clear();
  const HookHandle hook = x.register_ready_hook([] { fail("a hook throws"); });
  CHECK_THROWS_WITH_AS(sum(x).backward(), "a hook throws", Error);
  CHECK(recorder->heard == "begin 1;failed");
}

TEST_CASE("observers begin and end in the order of their construction, wherever they lie") {
  struct Recorder final : LeafObserver {
    explicit Recorder(std::string& heard) : heard(heard) {}
    void backward_begins(std::span<VariableState* const> reached) override {
      heard += "begin " + reached[0]->name + ";";
    }
    void backward_ends() override { heard += "end;"; }
    std::string& heard;
  };
  for (const bool rises : {true, false}) {
    std::string heard;
    std::array<std::optional<Recorder>, 2> places;
    Variable total(tensor({0.f}));
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (const char* name : {"first", "second"}) {
      auto& place = places[rises == recorders.empty() ? 0 : 1];
      recorders.emplace_back(&place.emplace(heard), [](Recorder*) {});
      const Variable x(tensor({1.f}), true);
      x.set_name(name);
      x.state()->observer = recorders.back();
      total = total + x;
    }
    total.backward();
    CHECK(heard == "begin first;begin second;end;end;");
  }
}

TEST_CASE("without recording nothing is remembered") {
  const Variable x(tensor({1.f}), true);
  const NoGrad no_grad;
  CHECK_FALSE((x * 2).requires_grad());
}

TEST_CASE("a tensor written to after forward is detected and named") {
  Variable x(tensor({1.f}), true);
  x.set_name("encoder.weight");
  const Variable y = x * x;
  x.mutable_tensor().fill_(3);
  CHECK_THROWS_WITH_AS(
      y.backward(),
      "[mul] parameter encoder.weight was written to after forward, and backward needs it", Error);
}

TEST_CASE("a parameter that moved to other memory is read where it is now") {
  const Variable x(tensor({2.f}), true);
  const Variable y = x * x;
  x.set_tensor(tensor({2.f}));  // the same values in other memory, as in a sharded model
  y.backward();
  CHECK(x.grad().item() == 4);
}

TEST_CASE("a graph is used once unless it is retained") {
  const Variable x(tensor({1.f}), true);
  const Variable y = sum(x * x);
  y.backward({}, true);
  y.backward();
  CHECK(x.grad().item() == 4);
  CHECK_THROWS_AS(y.backward(), Error);
  CHECK_THROWS_AS(Variable(tensor({1.f})).backward(), Error);
  CHECK_THROWS_AS((x * Variable(tensor({1.f, 2.f}))).backward(), Error);
}

TEST_CASE("a graph of a million nodes runs and dies without recursion") {
  const Variable x(tensor({1.f}), true);
  Variable y = x;
  for (int i = 0; i < 1'000'000; ++i) y = view(y, {1});
  SUBCASE("used") {
    y.backward();
    CHECK(x.grad().item() == 1);
  }
  SUBCASE("dropped") { y = Variable(); }
  CHECK(x.defined());
}

namespace {

// A custom op with the test's backward.
Variable custom(const Variable& x, const Variable& bias,
                std::function<void(const Tensor&, Gradients&)> rule) {
  return record("custom", add(x.tensor(), bias.tensor()), {x, bias}, rule);
}

// The error of a backward through custom(x, bias), x an inner variable (5, 3) or a leaf.
std::string complaint(std::function<void(const Tensor&, Gradients&)> rule, bool inner = true) {
  const Variable leaf(ones({5, 3}), true), bias(ones({3}), true);
  bias.set_name("head.bias");
  return message_of(
      [&] { sum(custom(inner ? leaf * 1 : leaf, bias, std::move(rule))).backward(); });
}

}  // namespace

// In PyTorch: "Function CustomBackward returned an invalid gradient at index 0 - got [3] but
// expected shape compatible with [5, 3]".
TEST_CASE("a gradient of the wrong shape is an error that names the op and the input") {
  const auto narrow_grad = [](const Tensor&, Gradients& grads) {
    grads[0].set(ones({3}));
    grads[1].set(ones({3}));
  };
  const std::string expected = "[custom] gradient of input 0 is (3,), expected (5, 3)";
  CHECK(complaint(narrow_grad) == expected);
  CHECK(complaint(narrow_grad, false) == expected);
  CHECK(complaint([](const Tensor& grad, Gradients& grads) {
          grads[0].set(grad);
          grads[1].set(grad);
        }) == "[custom] gradient of input 1 (parameter head.bias) is (5, 3), expected (3,)");
  CHECK(complaint([](const Tensor&, Gradients& grads) {
          grads[0].sink({3, 5}, DType::f32, default_device());
        }) == "[custom] gradient of input 0 is (3, 5), expected (5, 3)");
  CHECK(complaint([](const Tensor&, Gradients& grads) {
          grads[0].sink({5, 3}, DType::f64, default_device());
        }) == "[custom] gradient of input 0 is f64, expected f32");
}

TEST_CASE("a gradient on another device is an error, one of another dtype is converted") {
  const Device other{DeviceType::cpu, 2};
  CHECK(complaint([&](const Tensor& grad, Gradients& grads) { grads[0].set(grad.to(other)); }) ==
        "[custom] gradient of input 0 is on cpu:2, expected " + str(default_device()));
  // As in PyTorch: the op below receives its output's dtype.
  DType received = DType::u8;
  const Variable x(ones({2}), true), bias(ones({2}), true);
  const auto pass_on = [&](const Tensor& grad, Gradients& grads) {
    received = grad.dtype();
    for (std::size_t i : {0, 1}) grads[i].set(grad);
  };
  const auto widen = [](const Tensor& grad, Gradients& grads) {
    for (std::size_t i : {0, 1}) grads[i].set(grad.to(DType::f64));
  };
  sum(custom(custom(x, bias, pass_on), bias, widen)).backward();
  CHECK(received == DType::f32);
  CHECK(x.grad().dtype() == DType::f32);
  custom(x, bias, pass_on).backward(ones({2}, DType::f64));
  CHECK(received == DType::f32);
}

TEST_CASE("a needed gradient that backward leaves out, and one beyond the inputs, are errors") {
  const auto forgets = [](const Tensor& grad, Gradients& grads) { grads[0].set(grad); };
  CHECK(complaint(forgets) ==
        "[custom] gradient of input 1 (parameter head.bias) is needed, and backward does not set "
        "it");
  CHECK(complaint([&](const Tensor& grad, Gradients& grads) {
          forgets(grad, grads);
          grads[1].skip();
        }).empty());
  CHECK(complaint([](const Tensor& grad, Gradients& grads) { grads[2].set(grad); }) ==
        "[custom] gradient of input 2: the number of inputs is 2");
  CHECK(complaint([](const Tensor&, Gradients& grads) { grads[0].set({}); }) ==
        "[custom] gradient of input 0 is an undefined tensor; see Gradient::skip");
}

TEST_CASE("gradcheck finds a wrong gradient and says where") {
  const Variable x(tensor({1.0, 2.0}), true);
  const auto twice = [](const std::vector<Variable>& in) {
    return record("wrong", scale(in[0].tensor(), 2), {in[0]},
                  [](const Tensor& grad, Gradients& grads) { grads[0].set(grad); });
  };
  const GradcheckReport report = gradcheck(twice, {x});
  CHECK_FALSE(report.ok());
  CHECK(std::abs(report.numeric) == doctest::Approx(2 * std::abs(report.analytic)));
}
