// Which elements of the image an output of max_pool2d reads.
#pragma once

#include "ringlet/core/ops/max_pool.h"
#include "ringlet/cuda/divider.h"

namespace ringlet::cuda {

/// x (planes, height, width), y (planes, out_height, out_width).
struct MaxPoolPlan {
  std::int64_t outputs;  // of all planes
  Divider out_pixels, out_width;
  std::int64_t pixels, width, kernel, stride;

  explicit MaxPoolPlan(const MaxPool2dArgs& args)
      : outputs(args.planes * args.out_height * args.out_width),
        out_pixels(args.out_height * args.out_width),
        out_width(args.out_width),
        pixels(args.height * args.width),
        width(args.width),
        kernel(args.kernel),
        stride(args.stride) {}
};

struct PoolWindow {
  std::int64_t plane;  // the plane's offset in x
  std::int64_t first;  // the window's first element in its plane

  /// The element in row `ky` and column `kx` of the window, as an index in the plane.
  RINGLET_HOST_DEVICE std::int64_t at(const MaxPoolPlan& p, std::int64_t ky,
                                      std::int64_t kx) const {
    return first + ky * p.width + kx;
  }
};
/// The window of output i, counted over all planes.
RINGLET_HOST_DEVICE PoolWindow window_of(const MaxPoolPlan& p, std::int64_t i) {
  const Division plane = divide(i, p.out_pixels);
  const Division out = divide(plane.remainder, p.out_width);
  return {plane.quotient * p.pixels, (out.quotient * p.width + out.remainder) * p.stride};
}

}  // namespace ringlet::cuda
