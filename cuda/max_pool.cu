#include "ringlet/core/ops/max_pool.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/divider.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/scatter_places.h"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

namespace {

// The first of equal elements wins, NaN wins over all.
template <class T>
__global__ void pool_windows(MaxPool2dArgs args, Divider out_pixels, Divider out_width) {
  grid_stride(args.planes * out_pixels.divisor(), [&](std::int64_t i) {
    const Division plane = divide(i, out_pixels), out = divide(plane.remainder, out_width);
    const T* in = static_cast<const T*>(args.x) + plane.quotient * args.height * args.width;
    const std::int64_t first = (out.quotient * args.width + out.remainder) * args.stride;
    std::int64_t best = first;
    compute_t<T> largest = to_compute(in[best]);
    for (std::int64_t ky = 0; ky < args.kernel; ++ky)
      for (std::int64_t kx = 0; kx < args.kernel; ++kx) {
        const std::int64_t at = first + ky * args.width + kx;
        const compute_t<T> value = to_compute(in[at]);
        const bool larger = value > largest || (value != value && largest == largest);
        best = larger ? at : best;
        largest = larger ? value : largest;
      }
    static_cast<T*>(args.y)[i] = in[best];
    args.indices[i] = static_cast<std::int32_t>(best);
  });
}

template <class T>
void max_pool2d(const MaxPool2dArgs& args, Device device) {
  const std::int64_t pixels = args.out_height * args.out_width;
  launch("max_pool2d", device, pool_windows<T>, grid_for(args.planes * pixels), kThreads, 0, args,
         Divider(pixels), Divider(args.out_width));
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
