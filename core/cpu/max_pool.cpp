#include "ringlet/core/ops/max_pool.h"

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

template <class T>
RINGLET_INLINE std::int64_t largest_in_window(const T* plane, std::int64_t first,
                                              std::int64_t width, std::int64_t kernel) {
  std::int64_t best = first;
  auto largest = static_cast<scalar_t<T>>(plane[first]);
  for (std::int64_t ky = 0; ky < kernel; ++ky)
    for (std::int64_t kx = 0; kx < kernel; ++kx) {
      const std::int64_t at = first + ky * width + kx;
      const auto value = static_cast<scalar_t<T>>(plane[at]);
      const bool larger = value > largest || (value != value && largest == largest);
      best = larger ? at : best;
      largest = larger ? value : largest;
    }
  return best;
}

template <class T>
void pool_plane(const MaxPool2dArgs& args, const T* plane, T* y, std::int32_t* indices) {
  for (std::int64_t oy = 0; oy < args.out_height; ++oy)
    for (std::int64_t ox = 0; ox < args.out_width; ++ox) {
      const std::int64_t first = (oy * args.width + ox) * args.stride;
      const std::int64_t best = args.kernel == 2
                                    ? largest_in_window(plane, first, args.width, 2)
                                    : largest_in_window(plane, first, args.width, args.kernel);
      *y++ = plane[best];
      *indices++ = static_cast<std::int32_t>(best);
    }
}

template <class T>
void max_pool2d(const MaxPool2dArgs& args, Device device) {
  const std::int64_t out_pixels = args.out_height * args.out_width;
  for_each(device, args.planes, 8, [&](std::int64_t p) {
    pool_plane(args, static_cast<const T*>(args.x) + p * args.height * args.width,
               static_cast<T*>(args.y) + p * out_pixels, args.indices + p * out_pixels);
  });
}

template <class T>
void max_pool2d_backward(const MaxPool2dBackwardArgs& args, Device device) {
  for_each(device, args.planes, 8, [&](std::int64_t p) {
    T* out = static_cast<T*>(args.grad_x) + p * args.pixels;
    memset(static_cast<void*>(out), 0, static_cast<size_t>(args.pixels) * sizeof(T));
    for (std::int64_t i = p * args.out_pixels; i < (p + 1) * args.out_pixels; ++i) {
      const std::int64_t at = args.indices[i];
      if (at < 0 || at >= args.pixels) [[unlikely]]
        index_out_of_plane(at, args.pixels);
      const auto grad = static_cast<scalar_t<T>>(static_cast<const T*>(args.grad)[i]);
      out[at] = T(static_cast<scalar_t<T>>(out[at]) + grad);
    }
  });
}

}  // namespace

void register_max_pool() {
  RINGLET_SET_FLOATING(cpu, max_pool2d);
  RINGLET_SET_FLOATING(cpu, max_pool2d_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
