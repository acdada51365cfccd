#include "ringlet/autograd/functions/convolution.h"

#include "../oracle.h"
#include "check.h"
#include "ringlet/autograd/functions/max_pool.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("gradients of conv2d") {
  for (const Conv2dOptions& options :
       {Conv2dOptions{}, Conv2dOptions{1, 1}, Conv2dOptions{2, 1}, Conv2dOptions{2, 0}}) {
    CAPTURE(options.stride);
    CAPTURE(options.padding);
    const auto with_bias = [&](const Inputs& in) { return conv2d(in[0], in[1], in[2], options); };
    CHECK_GRADIENTS(with_bias, input({2, 2, 6, 5}), input({3, 2, 3, 2}), input({3}));
    const auto without = [&](const Inputs& in) { return conv2d(in[0], in[1], {}, options); };
    CHECK_GRADIENTS(without, input({1, 1, 4, 4}), input({2, 1, 3, 3}));
  }
}

TEST_CASE("gradients of max_pool2d") {
  CHECK_GRADIENTS([](const Inputs& in) { return max_pool2d(in[0], 2); }, input({2, 2, 4, 5}));
  CHECK_GRADIENTS([](const Inputs& in) { return max_pool2d(in[0], 3, 1); }, input({1, 2, 5, 5}));
}

TEST_CASE("conv2d agrees with PyTorch") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("conv2d")) {
    const auto leaf = [&](const char* name) { return Variable(ops.tensor(c + name), true); };
    const auto option = [&](const char* name) {
      return static_cast<std::int64_t>(ops.scalar(c + name));
    };
    const Variable x = leaf("/x"), weight = leaf("/weight"), bias = leaf("/bias");
    const Variable y =
        conv2d(x, weight, bias, {.stride = option("/stride"), .padding = option("/padding")});
    y.backward(ops.tensor(c + "/grad_y"));
    // The roundings of a sum of n products grow as its square root here; 27 terms make an output,
    // at most 36 a pixel's gradient, one per output pixel of the batch a weight's.
    const double pixels = static_cast<double>(y.numel()) / static_cast<double>(y.size(1));
    check_close(y.tensor(), ops.tensor(c + "/y"), std::sqrt(28.0) * kF32, c);
    check_close(x.grad(), ops.tensor(c + "/grad_x"), std::sqrt(36.0) * kF32, c);
    check_close(weight.grad(), ops.tensor(c + "/grad_weight"), std::sqrt(pixels) * kF32, c);
    check_close(bias.grad(), ops.tensor(c + "/grad_bias"), std::sqrt(pixels) * kF32, c);
  }
}

TEST_CASE("max_pool2d agrees with PyTorch") {
  const Oracle ops("ops");
  for (const std::string& c : ops.cases("max_pool2d")) {
    const Variable x(ops.tensor(c + "/x"), true);
    const Variable y = max_pool2d(x, static_cast<std::int64_t>(ops.scalar(c + "/kernel")));
    y.backward(ops.tensor(c + "/grad_y"));
    check_close(y.tensor(), ops.tensor(c + "/y"), 0, c);
    check_close(x.grad(), ops.tensor(c + "/grad_x"), 0, c);
  }
}
