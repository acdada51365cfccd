#include "ringlet/autograd/functions/pooling.h"

#include "../oracle.h"
#include "check.h"

using namespace ringlet;
using namespace ringlet::autograd;

TEST_CASE("gradients of pooling") {
  const Tensor cu_seqlens = tensor<std::int32_t>({0, 3, 4, 9}, {4});
  for (PoolingMode mode : {PoolingMode::mean, PoolingMode::cls, PoolingMode::max}) {
    CAPTURE(static_cast<int>(mode));
    CHECK_GRADIENTS([&](const Inputs& in) { return pooling(mode, in[0], cu_seqlens); },
                    input({9, 5}));
  }
}

TEST_CASE("pooling agrees with PyTorch") {
  const Oracle ops("ops");
  const std::pair<const char*, PoolingMode> modes[] = {{"mean_pooling", PoolingMode::mean},
                                                       {"cls_pooling", PoolingMode::cls},
                                                       {"max_pooling", PoolingMode::max}};
  for (const auto& [op, mode] : modes)
    for (const std::string& c : ops.cases(op)) {
      const Variable x(ops.tensor(c + "/x"), true);
      const Variable y = pooling(mode, x, ops.tensor(c + "/cu_seqlens"));
      y.backward(ops.tensor(c + "/grad_y"));
      // At most a sum over the tokens of a sentence and a division.
      const double unit = (1 + static_cast<double>(x.size(0))) * kF32;
      check_close(y.tensor(), ops.tensor(c + "/y"), unit, c);
      check_close(x.grad(), ops.tensor(c + "/grad_x"), kF32, c);
    }
}
