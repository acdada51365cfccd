#include "ringlet/autograd/functions.h"

#include "ringlet/autograd/node.h"

#include "check.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("gradients of matmul in all forms, batched and with a shared matrix") {
  for (int form = 0; form < 4; ++form) {
    CAPTURE(form);
    const MatmulOptions options{form % 2 == 1, form / 2 == 1};
    const auto f = [&](const Inputs& in) { return matmul(in[0], in[1], options); };
    const auto shape = [](bool transposed, Shape s) {
      return transposed ? s.with(-1, s[-2]).with(-2, s[-1]) : s;
    };
    CHECK_GRADIENTS(f, input(shape(options.trans_a, {3, 5})),
                    input(shape(options.trans_b, {5, 4})));
    CHECK_GRADIENTS(f, input(shape(options.trans_a, {2, 3, 5})),
                    input(shape(options.trans_b, {2, 5, 4})));
    CHECK_GRADIENTS(f, input(shape(options.trans_a, {2, 3, 5})),
                    input(shape(options.trans_b, {5, 4})));
  }
}

TEST_CASE("gradients of linear and linear_gelu") {
  const auto plain = [](const Inputs& in) { return linear(in[0], in[1], in[2]); };
  const auto activated = [](const Inputs& in) { return linear_gelu(in[0], in[1], in[2]); };
  CHECK_GRADIENTS(plain, input({2, 3, 5}), input({4, 5}), input({4}));
  CHECK_GRADIENTS(activated, input({2, 3, 5}), input({4, 5}), input({4}));
  CHECK_GRADIENTS([](const Inputs& in) { return linear(in[0], in[1]); }, input({3, 5}),
                  input({4, 5}));
}

TEST_CASE("bf16 activations leave f32 gradients of f32 parameters, added where there is one") {
  const Variable weight(tensor<float>({1, 2}, {1, 2}), true), bias(zeros({1}), true);
  const Variable x(ones({3, 2}, DType::bf16), true);
  for (int pass = 1; pass <= 2; ++pass) {
    const Variable y = linear(x, weight, bias);
    CHECK(y.dtype() == DType::bf16);
    y.backward(ones({3, 1}, DType::bf16));
    const auto n = static_cast<float>(3 * pass);
    CHECK(weight.grad().dtype() == DType::f32);
    CHECK(weight.grad().to_vector() == std::vector<float>{n, n});
    CHECK(bias.grad().item() == n);
    CHECK(x.grad().dtype() == DType::bf16);
  }
  const Variable empty(zeros({0, 2}, DType::bf16), true);
  weight.zero_grad();
  linear(empty, weight, bias).backward(zeros({0, 1}, DType::bf16));
  CHECK(weight.grad().to_vector() == std::vector<float>{0, 0});
}

TEST_CASE("gradients of dropout pass where the mask does") {
  const DropoutKey key{.p = 0.4f, .seed = 3, .site = 2};
  CHECK_GRADIENTS([&](const Inputs& in) { return dropout(in[0], key); }, input({4, 9}));
  const Variable x(ones({4, 9}), true);
  const Variable y = dropout(x, key);
  y.backward(ones({4, 9}));
  CHECK(x.grad().to_vector() == y.tensor().to_vector());
  CHECK(dropout(x, {.p = 0}) == x);
}

namespace {

// Records the outputs of products that accumulate.
struct Additions final : KernelObserver {
  std::vector<const void*> places;
  int others = 0;
  Additions() { kernel_observer = this; }
  ~Additions() override { kernel_observer = nullptr; }
  void before(const char* name, const void* args, Device) override {
    const std::string_view kernel = name;
    others += kernel == "axpby";
    if (kernel != "matmul") return;
    const auto& product = *static_cast<const MatmulArgs*>(args);
    if (product.beta == 1) places.push_back(product.out);
  }
  void after(const char*, const void*, Device) override {}
};

}  // namespace

TEST_CASE("a layer adds its input's gradient where the earlier one lies, rounding once") {
  for (const bool packed : {false, true}) {
    CAPTURE(packed);
    const Variable x(ones({1, 1}, DType::bf16), true);
    // Rounded to bf16 first, their sum would be 2^-8, and 1 + 2^-8 is 1.
    const Variable weight(tensor<float>({0x1p-8f, 0x1p-20f}, {2, 1}), true), bias(zeros({2}), true);
    const Variable h = mul(x, Variable(ones({1, 1}, DType::bf16)));
    const Variable y = packed ? packed_linear(h, {weight}, {bias}) : linear(h, weight, bias);
    const std::byte* earlier = nullptr;
    // A gradient of ones, in separate memory.
    const Variable other = record("ones_back", h.tensor().clone(), {h},
                                  [&earlier](const Tensor& grad, Gradients& grads) {
                                    Tensor made = ones(grad.shape(), grad.dtype(), grad.device());
                                    earlier = made.bytes();
                                    grads[0].set(std::move(made));
                                  });
    const Variable both = mul(y, other);
    Additions seen;
    both.backward(ones({1, 2}, DType::bf16));
    CHECK(seen.places == std::vector<const void*>{earlier});
    CHECK(seen.others == 0);
    CHECK(x.grad().item() == 1 + 0x1p-7f);
  }
}

TEST_CASE("a layer does not change an earlier gradient that another tensor shares") {
  const Variable x(tensor<float>({1, 2}, {1, 2}), true);
  const Variable weight(tensor<float>({0, 3, 5, 0}, {2, 2}), true);
  const Variable h = x * 1;
  const Tensor grad = tensor<float>({7, 11}, {1, 2});
  (linear(h, weight) + h).backward(grad);  // passes it to both
  CHECK(x.grad().to_vector() == std::vector<float>{7 + 55, 11 + 21});
  CHECK(grad.to_vector() == std::vector<float>{7, 11});
}

TEST_CASE("layers as one have each its own gradients, wherever they lie and whichever are wanted") {
  const std::int64_t rows[] = {2, 3, 4}, in = 5, tokens = 6;
  const auto integers = [](Shape shape, int salt) {
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(salt)) % 11) - 5;
    return tensor(values, shape);
  };
  const Variable x(integers({tokens, in}, 0), false);
  const Tensor grad = integers({tokens, 9}, 1);  // (T, 2 + 3 + 4)
  for (const bool weights_in_arena : {false, true})
    for (const bool biases_in_arena : {false, true})
      for (int wanted = 0; wanted < 64; ++wanted) {
        CAPTURE(wanted);
        Tensor weight_arena = zeros({9, in}), bias_arena = zeros({9});
        std::vector<Variable> weights, biases;
        for (std::int64_t i = 0, begin = 0; i < 3; begin += rows[i++]) {
          weights.emplace_back(integers({rows[i], in}, 2), (wanted >> i & 1) == 1);
          biases.emplace_back(integers({rows[i]}, 3), (wanted >> (3 + i) & 1) == 1);
          if (weights_in_arena)
            weights.back().set_grad_buffer(weight_arena.slice(begin, begin + rows[i]));
          if (biases_in_arena)
            biases.back().set_grad_buffer(bias_arena.slice(begin, begin + rows[i]));
        }
        if (wanted == 0) continue;
        for (int times = 1; times <= 2; ++times) {  // written, then accumulated
          packed_linear(x, weights, biases).backward(grad);
          for (std::int64_t i = 0, begin = 0; i < 3; begin += rows[i++]) {
            const Tensor part = narrow(grad, 1, begin, rows[i]);
            Tensor sums = zeros({rows[i]});
            sum_rows_into(sums, part);
            const Variable &weight = weights[static_cast<std::size_t>(i)],
                           &bias = biases[static_cast<std::size_t>(i)];
            if (weight.requires_grad())
              CHECK(weight.grad().to_vector() ==
                    scale(matmul(part, x.tensor(), {.trans_a = true}), times).to_vector());
            if (bias.requires_grad())
              CHECK(bias.grad().to_vector() == scale(sums, times).to_vector());
          }
        }
      }
}
