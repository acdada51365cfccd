#include "ringlet/autograd/functions/softmax.h"

#include "../oracle.h"
#include "check.h"
#include "ringlet/autograd/functions/cross_entropy.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("gradients of softmax, log_softmax and cross_entropy") {
  for (std::int64_t columns : {1, 5, 19}) {
    CAPTURE(columns);
    CHECK_GRADIENTS([](const Inputs& in) { return softmax(in[0]); }, input({3, columns}, -2, 2));
    CHECK_GRADIENTS([](const Inputs& in) { return log_softmax(in[0]); },
                    input({3, columns}, -2, 2));
    const Tensor labels = tensor<std::int64_t>({0, columns - 1, columns / 2}, {3});
    CHECK_GRADIENTS([&](const Inputs& in) { return cross_entropy(in[0], labels, 7); },
                    input({3, columns}, -2, 2));
  }
}

TEST_CASE("softmax, log_softmax and cross_entropy agree with PyTorch") {
  const Oracle ops("ops");
  for (const char* op : {"softmax", "log_softmax"})
    for (const std::string& c : ops.cases(op)) {
      const Variable x(ops.tensor(c + "/x"), true);
      const Variable y = std::string(op) == "softmax" ? softmax(x) : log_softmax(x);
      y.backward(ops.tensor(c + "/grad_y"));
      // An exponential of 2 ulp and its argument, a sum of 67 / 16 + 5 steps, a quotient; the
      // gradient sums terms of the size of grad_y, which may cancel.
      check_close(y.tensor(), ops.tensor(c + "/y"), 16 * kF32, c);
      check_close(x.grad(), ops.tensor(c + "/grad_x"), 32 * kF32, c, 1);
    }
  for (const std::string& c : ops.cases("cross_entropy")) {
    const Variable x(ops.tensor(c + "/x"), true);
    const bool global = ops.contains(c + "/global_rows");
    const double rows = global ? ops.scalar(c + "/global_rows") : static_cast<double>(x.size(0));
    const Variable y = cross_entropy(x, ops.tensor(c + "/labels"), rows);
    y.backward();
    check_close(y.tensor(), ops.tensor(c + "/y"), 16 * kF32, c);
    check_close(x.grad(), ops.tensor(c + "/grad_x"), 16 * kF32, c);
  }
}
