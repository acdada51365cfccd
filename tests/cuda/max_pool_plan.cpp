// The windows of max_pool2d's kernel, evaluated on the host and compared with the CPU.
#include "ringlet/cuda/max_pool_plan.h"

#include <doctest/doctest.h>

#include "ringlet/core/ops/random.h"

using namespace ringlet;
using namespace ringlet::cuda;

TEST_CASE("windows of max_pool2d hold what the CPU takes the largest of") {
  const GeneratorGuard guard({.seed = 8});
  struct Sizes {
    std::int64_t height, width, kernel, stride;
  };
  for (const Sizes& s :
       {Sizes{6, 6, 2, 2}, {7, 9, 3, 2}, {5, 4, 2, 1}, {3, 3, 3, 3}, {9, 5, 2, 3}}) {
    CAPTURE(s.width);
    CAPTURE(s.kernel);
    const Tensor x = normal({2, 3, s.height, s.width}).to(Device{});
    const MaxPool2dOutput expected = max_pool2d(x, s.kernel, s.stride);
    MaxPool2dArgs args{};
    args.planes = 6;
    args.height = s.height, args.width = s.width;
    args.out_height = expected.y.size(2), args.out_width = expected.y.size(3);
    args.kernel = s.kernel, args.stride = s.stride;
    const MaxPoolPlan plan(args);
    REQUIRE(plan.outputs == expected.y.numel());
    for (std::int64_t i = 0; i < plan.outputs; ++i) {
      const PoolWindow window = window_of(plan, i);
      const float* in = x.data<float>() + window.plane;
      std::int64_t best = window.first;
      for (std::int64_t ky = 0; ky < s.kernel; ++ky)
        for (std::int64_t kx = 0; kx < s.kernel; ++kx)
          if (in[window.at(plan, ky, kx)] > in[best]) best = window.at(plan, ky, kx);
      CHECK(best == expected.indices.data<std::int32_t>()[i]);
      CHECK(in[best] == expected.y.data<float>()[i]);
    }
  }
}
