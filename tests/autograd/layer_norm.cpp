#include "ringlet/autograd/functions/layer_norm.h"

#include "../oracle.h"
#include "check.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("gradients of layer_norm") {
  for (std::int64_t columns : {2, 7, 33}) {
    CAPTURE(columns);
    CHECK_GRADIENTS([](const Inputs& in) { return layer_norm(in[0], in[1], in[2], 1e-3); },
                    input({3, columns}), input({columns}), input({columns}));
  }
}

TEST_CASE("gradients of residual_dropout_layer_norm, dropout on and off") {
  for (float p : {0.0f, 0.4f}) {
    const auto f = [&](const Inputs& in) {
      return residual_dropout_layer_norm(in[0], in[1], {.p = p, .seed = 5}, {}, in[2], in[3], 1e-3);
    };
    CHECK_GRADIENTS(f, input({3, 35}), input({3, 35}), input({35}), input({35}));
  }
}

TEST_CASE("x as its own residual gets both gradients") {
  const auto f = [](const Inputs& in) {
    return residual_dropout_layer_norm(in[0], in[0], {.p = 0.4f}, {}, in[1], in[1], 1e-3);
  };
  CHECK_GRADIENTS(f, input({2, 9}), input({9}));
}

TEST_CASE("layer_norm agrees with PyTorch") {
  const Oracle ops("ops");
  for (const char* op : {"layer_norm", "residual_layer_norm"})
    for (const std::string& c : ops.cases(op)) {
      const auto leaf = [&](const char* name) { return Variable(ops.tensor(c + name), true); };
      const Variable x = leaf("/x"), weight = leaf("/weight"), bias = leaf("/bias");
      const double eps = ops.scalar(c + "/eps");
      const bool fused = ops.contains(c + "/residual");
      const Variable residual = fused ? leaf("/residual") : Variable();
      const Variable y = fused ? residual_dropout_layer_norm(x, residual, {}, {}, weight, bias, eps)
                               : layer_norm(x, weight, bias, eps);
      y.backward(ops.tensor(c + "/grad_y"));
      // Each value has a few roundings; column sums add one per row.
      const double rows = static_cast<double>(x.numel()) / static_cast<double>(x.size(-1));
      check_close(y.tensor(), ops.tensor(c + "/y"), 8 * kF32, c);
      check_close(x.grad(), ops.tensor(c + "/grad_x"), 16 * kF32, c);
      check_close(weight.grad(), ops.tensor(c + "/grad_weight"), (8 + rows) * kF32, c);
      check_close(bias.grad(), ops.tensor(c + "/grad_bias"), (1 + rows) * kF32, c);
      if (fused) check_close(residual.grad(), ops.tensor(c + "/grad_residual"), 16 * kF32, c);
    }
}
