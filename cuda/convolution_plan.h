// Convolution as matrix products with implicit operands. The plan gives the element of image,
// gradient or weight at (m, k) and (k, n), and the output at (m, n).
//
//   forward             y (O, B P) = weight (O, C kh kw) x patches (C kh kw, B P)
//   gradient of x       (C, B H W) = weight^T (C, O kh kw) x patches of grad (O kh kw, B H W)
//   gradient of weight  (O, C kh kw) = grad (O, B P) x patches^T (B P, C kh kw)
#pragma once

#include "ringlet/core/ops/convolution.h"
#include "ringlet/cuda/divider.h"

namespace ringlet::cuda {

/// The sizes of a convolution, with dividers that split indices.
struct Conv2dPlan {
  Conv2dSizes sizes;
  Divider out_width, out_pixels;  // ow, P = oh ow
  Divider width, pixels;          // W, H W
  Divider kernel_width, taps;     // kw, kh kw
  Divider stride;

  explicit Conv2dPlan(const Conv2dSizes& s)
      : sizes(s),
        out_width(s.out_width),
        out_pixels(s.out_height * s.out_width),
        width(s.width > 0 ? s.width : 1),  // an image may be all padding
        pixels(s.height * s.width > 0 ? s.height * s.width : 1),
        kernel_width(s.kernel_width),
        taps(s.kernel_height * s.kernel_width),
        stride(s.stride) {}
};

/// A pixel of one image of the batch.
struct Pixel {
  std::int64_t image, y, x;
};
RINGLET_HOST_DEVICE Pixel pixel_of(std::int64_t n, const Divider& pixels, const Divider& width) {
  const Division image = divide(n, pixels);
  const Division row = divide(image.remainder, width);
  return {image.quotient, row.quotient, row.remainder};
}

/// One position of the kernel in one channel.
struct Tap {
  std::int64_t channel, y, x;
};
RINGLET_HOST_DEVICE Tap tap_of(std::int64_t k, const Divider& taps, const Divider& kernel_width) {
  const Division channel = divide(k, taps);
  const Division row = divide(channel.remainder, kernel_width);
  return {channel.quotient, row.quotient, row.remainder};
}

/// The element of x (B, C, H, W) that output pixel `out` reads at `tap`; -1 in the padding.
RINGLET_HOST_DEVICE std::int64_t input_at(const Conv2dPlan& p, const Pixel& out, const Tap& tap) {
  const std::int64_t y = out.y * p.sizes.stride - p.sizes.padding + tap.y;
  const std::int64_t x = out.x * p.sizes.stride - p.sizes.padding + tap.x;
  if (y < 0 || y >= p.sizes.height || x < 0 || x >= p.sizes.width) return -1;
  return ((out.image * p.sizes.channels + tap.channel) * p.sizes.height + y) * p.sizes.width + x;
}

/// The element of grad (B, O, oh, ow) that input pixel `in` reaches through `tap` of an output
/// channel; -1 if there is none.
RINGLET_HOST_DEVICE std::int64_t output_at(const Conv2dPlan& p, const Pixel& in, const Tap& tap) {
  const std::int64_t y = in.y + p.sizes.padding - tap.y, x = in.x + p.sizes.padding - tap.x;
  if (y < 0 || x < 0) return -1;
  const Division row = divide(y, p.stride), column = divide(x, p.stride);
  if (row.remainder || column.remainder) return -1;
  if (row.quotient >= p.sizes.out_height || column.quotient >= p.sizes.out_width) return -1;
  return ((in.image * p.sizes.out_channels + tap.channel) * p.sizes.out_height + row.quotient) *
             p.sizes.out_width +
         column.quotient;
}

// Each product defines its sizes, the meaning of its columns and of its inner dimension, and the
// positions of the elements. Where b is -1 the element is 0. With kSkips the product is skipped
// instead: 0 times a weight that is not finite would be NaN.

struct ForwardProduct {
  Conv2dPlan p;

  using Column = Pixel;  // an output pixel
  using Inner = Tap;
  static constexpr bool kInnerContiguous = false;  // whether b's neighbours are along k, not n
  static constexpr bool kSkips = false;
  RINGLET_HOST_DEVICE std::int64_t rows() const { return p.sizes.out_channels; }
  RINGLET_HOST_DEVICE std::int64_t columns() const {
    return p.sizes.batch * p.out_pixels.divisor();
  }
  RINGLET_HOST_DEVICE std::int64_t inner() const { return p.sizes.channels * p.taps.divisor(); }
  RINGLET_HOST_DEVICE Column column(std::int64_t n) const {
    return pixel_of(n, p.out_pixels, p.out_width);
  }
  RINGLET_HOST_DEVICE Inner inner_at(std::int64_t k) const {
    return tap_of(k, p.taps, p.kernel_width);
  }
  RINGLET_HOST_DEVICE std::int64_t a(std::int64_t m, std::int64_t k, const Inner&) const {
    return m * inner() + k;  // weight
  }
  RINGLET_HOST_DEVICE std::int64_t b(const Inner& tap, const Column& out) const {
    return input_at(p, out, tap);  // x
  }
  RINGLET_HOST_DEVICE std::int64_t c(std::int64_t m, std::int64_t, const Column& out) const {
    return ((out.image * p.sizes.out_channels + m) * p.sizes.out_height + out.y) *
               p.sizes.out_width +
           out.x;  // y
  }
};

struct InputGradientProduct {
  Conv2dPlan p;

  using Column = Pixel;  // an input pixel
  using Inner = Tap;     // of an output channel
  static constexpr bool kInnerContiguous = false;
  static constexpr bool kSkips = true;
  RINGLET_HOST_DEVICE std::int64_t rows() const { return p.sizes.channels; }
  RINGLET_HOST_DEVICE std::int64_t columns() const { return p.sizes.batch * p.pixels.divisor(); }
  RINGLET_HOST_DEVICE std::int64_t inner() const { return p.sizes.out_channels * p.taps.divisor(); }
  RINGLET_HOST_DEVICE Column column(std::int64_t n) const { return pixel_of(n, p.pixels, p.width); }
  RINGLET_HOST_DEVICE Inner inner_at(std::int64_t k) const {
    return tap_of(k, p.taps, p.kernel_width);
  }
  RINGLET_HOST_DEVICE std::int64_t a(std::int64_t m, std::int64_t, const Inner& tap) const {
    return ((tap.channel * p.sizes.channels + m) * p.sizes.kernel_height + tap.y) *
               p.sizes.kernel_width +
           tap.x;  // weight
  }
  RINGLET_HOST_DEVICE std::int64_t b(const Inner& tap, const Column& in) const {
    return output_at(p, in, tap);  // grad
  }
  RINGLET_HOST_DEVICE std::int64_t c(std::int64_t m, std::int64_t, const Column& in) const {
    return ((in.image * p.sizes.channels + m) * p.sizes.height + in.y) * p.sizes.width +
           in.x;  // grad_x
  }
};

struct WeightGradientProduct {
  Conv2dPlan p;

  using Column = Tap;
  using Inner = Pixel;  // an output pixel
  static constexpr bool kInnerContiguous = true;
  static constexpr bool kSkips = false;
  RINGLET_HOST_DEVICE std::int64_t rows() const { return p.sizes.out_channels; }
  RINGLET_HOST_DEVICE std::int64_t columns() const { return p.sizes.channels * p.taps.divisor(); }
  RINGLET_HOST_DEVICE std::int64_t inner() const { return p.sizes.batch * p.out_pixels.divisor(); }
  RINGLET_HOST_DEVICE Column column(std::int64_t n) const {
    return tap_of(n, p.taps, p.kernel_width);
  }
  RINGLET_HOST_DEVICE Inner inner_at(std::int64_t k) const {
    return pixel_of(k, p.out_pixels, p.out_width);
  }
  RINGLET_HOST_DEVICE std::int64_t a(std::int64_t m, std::int64_t, const Inner& out) const {
    return ((out.image * p.sizes.out_channels + m) * p.sizes.out_height + out.y) *
               p.sizes.out_width +
           out.x;  // grad
  }
  RINGLET_HOST_DEVICE std::int64_t b(const Inner& out, const Column& tap) const {
    return input_at(p, out, tap);  // x
  }
  RINGLET_HOST_DEVICE std::int64_t c(std::int64_t m, std::int64_t n, const Column&) const {
    return m * columns() + n;  // grad_weight
  }
};

}  // namespace ringlet::cuda
