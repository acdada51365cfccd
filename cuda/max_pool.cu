#include "ringlet/core/ops/max_pool.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/divider.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/scatter_places.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

// Which elements of the image an output of max_pool2d reads.

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

namespace {

// The first of equal elements wins, NaN wins over all.
template <class T>
__global__ void pool_windows(T* y, std::int32_t* indices, const T* x, MaxPoolPlan p) {
  using S = compute_t<T>;
  grid_stride(p.outputs, [&](std::int64_t i) {
    const PoolWindow window = window_of(p, i);
    const T* in = x + window.plane;
    std::int64_t best = window.first;
    S largest = to_compute(in[best]);
    for (std::int64_t ky = 0; ky < p.kernel; ++ky)
      for (std::int64_t kx = 0; kx < p.kernel; ++kx) {
        const std::int64_t at = window.at(p, ky, kx);
        const S value = to_compute(in[at]);
        const bool larger = value > largest || (value != value && largest == largest);
        best = larger ? at : best;
        largest = larger ? value : largest;
      }
    y[i] = in[best];
    indices[i] = static_cast<std::int32_t>(best);
  });
}

template <class T>
void max_pool2d(const MaxPool2dArgs& args, Device device) {
  const MaxPoolPlan plan(args);
  launch("max_pool2d", device, pool_windows<T>, grid_for(plan.outputs), kThreads, 0,
         static_cast<T*>(args.y), args.indices, static_cast<const T*>(args.x), plan);
}

// Adds each plane's gradients at the places in `indices`; those of overlapping windows are added in
// order.
void max_pool2d_backward(const MaxPool2dBackwardArgs& args, Device device) {
  {
    const DeviceGuard guard(device);
    const auto n = static_cast<std::size_t>(args.planes * args.pixels);
    RINGLET_CUDA(cudaMemsetAsync(args.grad_x, 0, n * itemsize(args.dtype), current_stream(device)));
  }
  if (args.out_pixels == 0) return;
  const ScatterAddArgs sums{args.grad_x,     args.grad, args.indices, args.planes, args.pixels,
                            args.out_pixels, 1,         false,        args.dtype,  DType::i32};
  scatter_add(sums, device);
}

}  // namespace

void register_max_pool() {
  RINGLET_SET_FLOATING(cuda, max_pool2d);
  max_pool2d_backward_kernel.set(DeviceType::cuda, max_pool2d_backward);
}

}  // namespace ringlet::cuda
